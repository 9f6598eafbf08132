"""The kinds of benchmark by name, and what each found: for a program and for a reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgen.bench import decode, extend, overhead, params, radix, radix_table, table
from kgen.bench.decode import Progress
from kgen.diagnostics import Diagnostic, KgenError, choice_hint

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Report:
    """A finished benchmark. `json` is made of plain lists, mappings and numbers."""

    json: Callable[[], Any]
    table: Callable[[], RenderableType]


def run(kind: str, args: Mapping[str, Any], progress: Progress = lambda line: None) -> Report:
    """Run one kind with its options; None stands for an option's default (DEFAULTS of its module).

    Raises KgenError: K580 for a kind or an option that does not exist, and what the run raises.
    """
    if kind not in _KINDS:
        raise KgenError(
            Diagnostic("K580", f"no benchmark is named '{kind}'", hint=choice_hint(kind, [*_KINDS]))
        )
    defaults, measure = _KINDS[kind]
    unknown = [name for name in args if name not in defaults]
    if unknown:
        message = f"'{unknown[0]}' is no option of bench {kind}"
        raise KgenError(Diagnostic("K580", message, hint=choice_hint(unknown[0], [*defaults])))
    return measure(args, progress)


def _decode(args: Mapping[str, Any], progress: Progress) -> Report:
    rows = decode.run(args, progress)
    return Report(lambda: [row.json() for row in rows], lambda: table.decode_table(rows))


def _extend(args: Mapping[str, Any], progress: Progress) -> Report:
    rows = extend.run(args, progress)
    return Report(lambda: [row.json() for row in rows], lambda: table.extend_table(rows))


def _overhead(args: Mapping[str, Any], progress: Progress) -> Report:
    rows = overhead.run(args, progress)
    return Report(lambda: [row.json() for row in rows], lambda: table.overhead_table(rows))


def _params(args: Mapping[str, Any], progress: Progress) -> Report:
    found = params.run(args, progress)
    return Report(found.json, lambda: table.params_tables(found))


def _radix(args: Mapping[str, Any], progress: Progress) -> Report:
    found = radix.run(args, progress)
    return Report(found.json, lambda: radix_table.radix_tables(found))


_KINDS: Mapping[str, tuple[Mapping[str, Any], Callable[[Mapping[str, Any], Progress], Report]]] = {
    "decode": (decode.DEFAULTS, _decode),
    "extend": (extend.DEFAULTS, _extend),
    "overhead": (overhead.DEFAULTS, _overhead),
    "params": (params.DEFAULTS, _params),
    "radix": (radix.DEFAULTS, _radix),
}
