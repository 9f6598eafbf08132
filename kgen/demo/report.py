"""How the demo tells what it does: for a person on a terminal, and as one document for a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from kgen.demo.compare import ENDED, NEAR_TIE
from kgen.demo.prompts import SESSIONS
from kgen.demo.texts import Texts, answers_json, run_json

if TYPE_CHECKING:
    from kgen.demo.compare import Comparison
    from kgen.demo.job import EngineRun
    from kgen.demo.stock import Answers, Name, OnToken, Stock
    from kgen.integrations.load import Loaded
    from kgen.spec.catalog import Catalog
    from kgen.testing.case import Outcome
    from kgen.variants.model import Matrix


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

    def loaded(self, loaded: Loaded, sessions: int) -> None:
        """Which model, and how many sessions."""
        self.console.print(f"model: {loaded.origin} ({loaded.seconds:.0f} s to load)")
        turns = len(SESSIONS[0])
        self.console.print(f"{sessions} sessions of {turns} turns, all under one system message with a text")
        self.document["model"] = {"origin": loaded.origin, "real": loaded.tokenizer is not None}
        self.document["sessions"] = sessions

    @contextmanager
    def stream(self, title: str, loaded: Loaded, steps: int) -> Iterator[OnToken]:
        """Show the text of each session as it comes; on a terminal, live."""
        texts = Texts(loaded.tokenizer)
        if not self.console.is_terminal:
            self.console.print(f"{title}: at most {steps} tokens an answer ...")
            yield texts.add
            return
        with Live(console=self.console, transient=True, refresh_per_second=8) as live:

            def show(name: Name, token: int) -> None:
                texts.add(name, token)
                live.update(texts.panel(title))

            yield show

    def texts(self, loaded: Loaded, answers: Answers) -> None:
        """What was asked, and what the model wrote."""
        texts = Texts(loaded.tokenizer)
        for name, tokens in sorted(answers.items()):
            session, turn = name
            text = texts.text(tokens)
            asked = SESSIONS[session][turn] if loaded.tokenizer is not None else f"turn {turn + 1}"
            self.console.print(Text.assemble((f"{session + 1}.{turn + 1}  {asked}  ", "cyan"), text))
        self.document["texts"] = {
            f"{s + 1}.{t + 1}": texts.text(row) for (s, t), row in sorted(answers.items())
        }

    def compared(self, stock: Stock, runs: Sequence[EngineRun]) -> None:
        """Tokens, work and speeds of all runs; what the prefix cache saved; then which kernels ran."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("run")
        for heading in (
            "same tokens",
            "prompt tokens computed",
            "reused",
            "seconds",
            "decode tok/s",
            "KV MiB",
        ):
            table.add_column(heading, justify="right")
        rate = stock.decode_tokens / stock.decode_seconds
        table.add_row(
            *(
                "stock (torch SDPA)",
                "",
                f"{stock.prompt_tokens:,}",
                "",
                f"{stock.seconds:.1f}",
                f"{rate:.1f}",
                "",
            )
        )
        for run in runs:
            result, stats = run.comparison, run.stats
            table.add_row(
                str(run),
                f"{result.same}/{result.total}",
                f"{stats.prefill_tokens:,}",
                f"{stats.reused_tokens:,}",
                f"{run.seconds:.1f}",
                f"{stats.decode_rate:.1f}",
                f"{run.peak_bytes / 2**20:.1f}",
            )
        self.console.print()
        self.console.print(table)
        self.console.print(
            "[dim]Each turn's prompt is everything said before. Matrix products are torch's in all runs.\n"
            "The stock model pads prompts to the longest, and decodes on behind the end marks of some.[/dim]"
        )
        self._saved(runs)
        self._kernels(runs)
        self.document["stock"] = {
            "answers": answers_json(stock.answers),
            "prompt_tokens": stock.prompt_tokens,
            "seconds": stock.seconds,
        }
        self.document["kgen"] = [run_json(run) for run in runs]

    def _saved(self, runs: Sequence[EngineRun]) -> None:
        without, cached = (next(run for run in runs if run.cached is kept) for kept in (False, True))
        tokens = without.stats.prefill_tokens - cached.stats.prefill_tokens
        share = tokens / without.stats.prefill_tokens
        seconds = without.seconds - cached.seconds
        self.console.print(
            f"the prefix cache saved {tokens:,} of {without.stats.prefill_tokens:,} prompt tokens "
            f"({share:.0%}) and {seconds:.1f} of {without.seconds:.1f} s"
        )
        self.document["saved"] = {"prompt_tokens": tokens, "seconds": seconds}

    def _kernels(self, runs: Sequence[EngineRun]) -> None:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("kernels that ran", no_wrap=True)
        table.add_column("calls", justify="right")
        calls: Counter[str] = Counter()
        for run in runs:
            calls.update(run.kernels)
        for name in sorted(calls):
            table.add_row(name, f"{calls[name]:,}")
        self.console.print()
        self.console.print(table)

    def verdict(self, comparisons: Sequence[Comparison], loaded: Loaded) -> None:
        """The last word: identical, or where the tokens part and how near the choice was."""
        self.console.print()
        ok = all(comparison.identical for comparison in comparisons)
        self.document["ok"] = ok
        if ok:
            message = f"all {comparisons[0].total} tokens are those of the stock model"
            self.console.print(f"[bold green]identical[/bold green]: {message}, with and without the cache")
            return
        self.console.print("[bold red]the tokens differ[/bold red]")
        for split in [split for comparison in comparisons for split in comparison.splits]:
            mine, other = (_word(loaded.tokenizer, token) for token in (split.stock, split.other))
            where = f"session {split.session + 1}, turn {split.turn + 1}, token {split.step + 1}"
            self.console.print(
                f"  {where}: stock {mine!r}{_ahead(split.margin)}, kgen {other!r}", markup=False
            )


def _ahead(margin: float | None) -> str:
    if margin is None:
        return ""
    near = ", a near-tie" if margin < NEAR_TIE else ""
    return f" (ahead by {margin:.2g} logits{near})"


def _word(tokenizer: Any | None, token: int) -> str:
    if token == ENDED:
        return "the end"
    return str(token) if tokenizer is None else str(tokenizer.decode([token]))
