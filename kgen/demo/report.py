"""How the demo tells what it does: for a person on a terminal, and as one document for a program."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from kgen.demo.prompts import QUESTIONS

if TYPE_CHECKING:
    from kgen.demo.compare import Comparison
    from kgen.demo.decode import Decoded
    from kgen.demo.job import PagedRun
    from kgen.integrations.load import Loaded
    from kgen.spec.catalog import Catalog
    from kgen.testing.case import Outcome
    from kgen.variants.model import Matrix

OnTokens = Callable[[Sequence[int]], None]
SHOWN_CHARACTERS = 300


class Report:
    """Prints each finding and keeps it in `document`."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.document: dict[str, Any] = {}
        self._step = 0

    def title(self, name: str, doc: str) -> None:
        """Begin a step."""
        self._step += 1
        self.console.print()
        self.console.print(
            Rule(f"[bold]{self._step}  {name}[/bold]  [dim]{doc}[/dim]", align="left", style="dim")
        )

    def matrix(self, matrix: Matrix, catalog: Catalog) -> None:
        """What was checked, and what the build expands to."""
        counts = f"{len(catalog.ops)} operators, {len(catalog.targets)} targets"
        self.console.print(f"checked: {counts}, {len(catalog.layouts)} layouts, no faults")
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in ("operator", "accepted", "rejected"):
            table.add_column(heading, justify="left" if heading == "operator" else "right")
        accepted = Counter(variant.op.name for variant in matrix.accepted)
        rejected = Counter(entry.op for entry in matrix.rejected)
        for op in sorted(accepted | rejected):
            table.add_row(op, str(accepted[op]), str(rejected[op]))
        table.add_row("[bold]all", str(len(matrix.accepted)), str(len(matrix.rejected)))
        self.console.print(table)
        targets = sorted({variant.target.name for variant in matrix.accepted})
        self.console.print(f"for {', '.join(targets)}: {matrix.product} combinations of build {matrix.build}")
        self.document["matrix"] = {
            "build": matrix.build,
            "product": matrix.product,
            "accepted": len(matrix.accepted),
            "rejected": len(matrix.rejected),
            "targets": targets,
        }

    def built(self, kernels: int, compiled: int, seconds: float) -> None:
        """How many kernels there are now, and how long that took."""
        kept = kernels - compiled
        self.console.print(f"{compiled} compiled, {kept} from the cache, in {seconds:.1f} s")
        self.document["build"] = {"kernels": kernels, "compiled": compiled, "seconds": seconds}

    def verified(self, outcomes: Sequence[Outcome], accepted: int) -> None:
        """How the sample did."""
        failed = sum(bool(outcome.problems) for outcome in outcomes)
        for outcome in outcomes:
            for problem in outcome.problems:
                self.console.print(f"{outcome.variant} [{outcome.case}]: {problem}", markup=False)
        variants = len({outcome.variant for outcome in outcomes})
        seconds = sum(outcome.seconds for outcome in outcomes)
        state = f"[red]{failed} failed[/red]" if failed else "[green]all pass[/green]"
        self.console.print(
            f"{variants} of {accepted} kernels, every pair of parameter values among them: "
            f"{len(outcomes)} cases, {state}, in {seconds:.1f} s"
        )
        self.document["verify"] = {
            "kernels": variants,
            "cases": len(outcomes),
            "failed": failed,
            "seconds": seconds,
        }

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show that something takes a while."""
        if not self.console.is_terminal:
            self.console.print(f"{what} ...")
            yield
            return
        with self.console.status(f"{what} ..."):
            yield

    def loaded(self, loaded: Loaded, lengths: Sequence[int]) -> None:
        """Which model, and which prompts."""
        self.console.print(f"model: {loaded.origin} ({loaded.seconds:.0f} s to load)")
        self.console.print(f"prompts: {len(lengths)}, of {', '.join(map(str, lengths))} tokens, as one batch")
        self.document["model"] = {"origin": loaded.origin, "real": loaded.tokenizer is not None}
        self.document["prompts"] = list(lengths)

    @contextmanager
    def stream(self, title: str, loaded: Loaded, prompts: int, steps: int) -> Iterator[OnTokens]:
        """Show the text of each prompt as it comes; on a terminal, live."""
        texts = Texts(loaded.tokenizer, prompts)
        if not self.console.is_terminal:
            self.console.print(f"{title}: decoding {steps} tokens for each prompt ...")
            yield texts.add
            return
        with Live(console=self.console, transient=True, refresh_per_second=8) as live:

            def show(tokens: Sequence[int]) -> None:
                texts.add(tokens)
                live.update(texts.panel(title, steps))

            yield show

    def texts(self, loaded: Loaded, decoded: Decoded) -> None:
        """What the model wrote, prompt by prompt."""
        texts = Texts(loaded.tokenizer, len(decoded.tokens))
        for step in zip(*decoded.tokens, strict=True):
            texts.add(step)
        for name, text in zip(texts.names(), texts.plain(), strict=True):
            self.console.print(Text.assemble((f"{name}  ", "cyan"), text))
        self.document["texts"] = texts.plain()

    def compared(self, stock: Decoded, runs: Sequence[PagedRun]) -> None:
        """Tokens, differences and speeds of all runs; then which kernels ran."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("run")
        for heading in ("same tokens", "largest logit difference", "prefill tok/s", "decode tok/s", "KV MiB"):
            table.add_column(heading, justify="right")
        table.add_row("stock (torch SDPA)", "", "", *_speeds(stock), "")
        for run in runs:
            result = run.comparison
            size = f"{run.cache_bytes / 2**20:.1f}"
            error = f"{result.logit_error:.2g}"
            table.add_row(
                f"kgen, {run.setting}", f"{result.same}/{result.total}", error, *_speeds(run.decoded), size
            )
        self.console.print()
        self.console.print(table)
        self.console.print(
            "[dim]Prefill on kgen: one row a prompt token through paged_attention, prompts packed.\n"
            "The stock model pads its prompts to the longest. Matrix products are torch's in all runs.[/dim]"
        )
        self._kernels(runs)
        self.document["stock"] = _run_json(stock)
        self.document["kgen"] = [
            {
                "setting": dataclasses.asdict(run.setting),
                **_run_json(run.decoded),
                "identical": run.comparison.identical,
                "comparison": dataclasses.asdict(run.comparison),
                "kernels": dict(run.kernels),
                "cache_bytes": run.cache_bytes,
            }
            for run in runs
        ]

    def _kernels(self, runs: Sequence[PagedRun]) -> None:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("kernels that ran", no_wrap=True)
        table.add_column("calls", justify="right")
        for run in runs:
            for name, calls in run.kernels.items():
                table.add_row(name, str(calls))
        self.console.print()
        self.console.print(table)

    def verdict(self, comparison: Comparison, loaded: Loaded) -> None:
        """The last word: identical, or where the tokens part and how near the choice was."""
        self.console.print()
        self.document["ok"] = comparison.identical
        if comparison.identical:
            message = f"all {comparison.total} tokens are those of the stock model"
            self.console.print(f"[bold green]identical[/bold green]: {message}")
            return
        self.console.print("[bold red]the tokens differ[/bold red]")
        for split in comparison.splits:
            mine, other = (_word(loaded.tokenizer, t) for t in (split.stock, split.paged))
            self.console.print(
                f"  prompt {split.prompt + 1}, token {split.step + 1}: stock {mine!r} (ahead by "
                f"{split.stock_margin:.2g} logits), kgen {other!r} (ahead by {split.paged_margin:.2g})"
            )
        near = max(max(s.stock_margin, s.paged_margin) for s in comparison.splits)
        self.console.print(
            f"  logits of the same text differ by at most {comparison.logit_error:.2g}; "
            + ("a near-tie of two tokens" if near <= 2 * comparison.logit_error else "more than a near-tie")
        )


class Texts:
    """The text of each prompt as it grows; token ids where there is no tokenizer."""

    def __init__(self, tokenizer: Any | None, prompts: int) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[list[int]] = [[] for _ in range(prompts)]

    def add(self, tokens: Sequence[int]) -> None:
        for mine, token in zip(self._tokens, tokens, strict=True):
            mine.append(token)

    def names(self) -> list[str]:
        if self._tokenizer is None:
            return [f"prompt {number + 1}" for number in range(len(self._tokens))]
        return [name for name, _ in QUESTIONS]

    def plain(self) -> list[str]:
        """Each text up to its end mark."""
        if self._tokenizer is None:
            return [" ".join(map(str, tokens)) for tokens in self._tokens]
        return [self._tokenizer.decode(self._until_end(tokens)) for tokens in self._tokens]

    def panel(self, title: str, steps: int) -> RenderableType:
        lines = [
            Text.assemble((f"{name}  ", "cyan"), text[-SHOWN_CHARACTERS:])
            for name, text in zip(self.names(), self.plain(), strict=True)
        ]
        return Panel(Group(*lines), title=f"{title}  {len(self._tokens[0])}/{steps}", title_align="left")

    def _until_end(self, tokens: list[int]) -> list[int]:
        end = self._tokenizer.eos_token_id if self._tokenizer else None
        return tokens[: tokens.index(end)] if end in tokens else tokens


def _speeds(decoded: Decoded) -> tuple[str, str]:
    return f"{decoded.prefill_rate:.0f}", f"{decoded.decode_rate:.1f}"


def _run_json(decoded: Decoded) -> dict[str, Any]:
    return {
        "tokens": [list(tokens) for tokens in decoded.tokens],
        "prefill_tokens_per_second": decoded.prefill_rate,
        "decode_tokens_per_second": decoded.decode_rate,
    }


def _word(tokenizer: Any | None, token: int) -> str:
    return str(token) if tokenizer is None else str(tokenizer.decode([token]))
