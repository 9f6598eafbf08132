"""`kgen explain lanes`: which lane and element holds each cell of a matrix instruction."""

from __future__ import annotations

import argparse
from typing import Any

from kgen.commands.common import add_json, print_json

DETAILS = """\
Draw the lane maps of a matrix instruction as its target's spec gives them, and the operand plan that
follows: how the probabilities of one product become an operand of the next, and how K and V are
loaded. Without INSTRUCTION: the instructions of the target.

examples:
  kgen explain lanes gfx936
  kgen explain lanes gfx936 mmac_f32_16x16x16_f16
"""


def add_arguments(kinds: Any) -> None:
    """The `lanes` kind of `kgen explain`."""
    parser = kinds.add_parser(
        "lanes",
        help="how a matrix instruction spreads over lanes",
        description=DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument("instruction", metavar="INSTRUCTION", nargs="?")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from kgen import api
    from kgen.targets.draw import draw_instruction
    from kgen.targets.instructions import instruction, instructions
    from kgen.variants.products import plans_of

    target = api.check().target(args.target.removeprefix("sim:"))
    if args.instruction is None:
        names = list(instructions(target))
        if args.json:
            print_json({"target": target.name, "instructions": names})
        elif names:
            print("\n".join(names))
        else:
            print(f"{target.name} has no matrix instructions")
        return 0
    one = instruction(target, args.instruction)
    if args.json:
        cells = {name: getattr(one, name).cells for name in ("a", "b", "d")}
        print_json({"target": target.name, "instruction": one.name, "dtype": one.dtype, **cells})
    else:
        print(f"{draw_instruction(one)}\n\nPlan for attention\n{plans_of(one)}")
    return 0
