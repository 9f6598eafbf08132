"""The steps of the main job, each a function from what came before to what it found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from kgen import api

if TYPE_CHECKING:
    from kgen.demo.compare import Comparison
    from kgen.demo.report import Report
    from kgen.demo.stock import Answers, Name, OnToken, Stock
    from kgen.engine import Conversation, Decode, Engine, EngineStats, Model
    from kgen.spec.catalog import Catalog
    from kgen.variants.model import Matrix


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    build: str
    new_tokens: int
    random_weights: bool = False
    jobs: int | None = None
    quiet: bool = False


@dataclass(frozen=True)
class Setting:
    """How the KV of a run is kept."""

    dtype: str
    layout: str
    block_size: int

    def __str__(self) -> str:
        return f"{self.dtype} {self.layout} pages of {self.block_size}"


# The setting whose tokens must be those of the stock model, and one in half the memory beside it.
EXACT = Setting("f32", "bshd", 16)
COMPACT = Setting("bf16", "bhsd", 32)
RUNS = ((EXACT, False), (EXACT, True), (COMPACT, True))

CHUNK = 128
"""Rows of a step: longer prompts go through extend_attention in chunks."""

POOL_TOKENS = 4096
"""Token slots in memory, enough for all sessions at once."""


@dataclass(frozen=True)
class EngineRun:
    """The sessions through the engine: answers, what was reused and computed, what ran how often."""

    setting: Setting
    cached: bool
    answers: Answers
    stats: EngineStats
    seconds: float
    kernels: Mapping[str, int]
    peak_bytes: int
    comparison: Comparison

    def __str__(self) -> str:
        return f"kgen, {self.setting}" + ("" if self.cached else ", no prefix cache")


def main(options: Options, report: Report) -> int:
    """Run every step, telling `report`. Returns 0 where the tokens are identical, else 1."""
    matrix, catalog = specs(options, report)
    build(matrix, options, report)
    if not verify(matrix, report):
        return 1
    return chat(catalog, options, report)


def specs(options: Options, report: Report) -> tuple[Matrix, Catalog]:
    """Check the specs and expand the build."""
    report.title("specs", "check every spec, expand the build into its matrix")
    catalog = api.check()
    matrix = api.expand(options.build, catalog=catalog)
    report.matrix(matrix, catalog)
    return matrix, catalog


def build(matrix: Matrix, options: Options, report: Report) -> None:
    """Compile what the cache lacks."""
    from kgen.build.progress import Counting, reporter

    report.title("kernels", "render and compile the accepted variants")
    start = time.perf_counter()
    counting = Counting(reporter("none" if options.quiet else "auto"))
    entries = api.build_matrix(matrix, options.jobs, counting)
    report.built(len(entries), counting.compiled, time.perf_counter() - start)


def verify(matrix: Matrix, report: Report) -> bool:
    """Check a sample of the kernels, in which every pair of parameter values occurs."""
    from kgen.testing.variants import outcomes, sampled

    report.title("verify", "a sample of the kernels against the float64 oracle")
    with report.waiting("checking"):
        found = list(outcomes(sampled(matrix.accepted)))
    report.verified(found, len(matrix.accepted))
    return not any(outcome.problems for outcome in found)


def chat(catalog: Catalog, options: Options, report: Report) -> int:
    """Let several sessions talk to the stock model and to the engine, and compare."""
    from kgen.demo import stock as loop
    from kgen.demo.prompts import conversations
    from kgen.engine import decoder
    from kgen.integrations.decoder import TransformersModel
    from kgen.integrations.load import load

    report.title("chat", "sessions of several turns, with the stock model and on kgen")
    with report.waiting("loading the model"):
        loaded = load(random_weights=options.random_weights)
    model = TransformersModel(loaded.model)
    begin = partial(conversations, loaded.tokenizer, model.vocab_size, model.end_tokens)
    report.loaded(loaded, len(begin()))
    decode = None if loaded.tokenizer is None else decoder(loaded.tokenizer)
    with report.stream("stock model", loaded, options.new_tokens) as on_token:
        stock = loop.run_stock(loaded.model, begin(), options.new_tokens, model.end_tokens, decode, on_token)
    runs = []
    for setting, cached in RUNS:
        name = str(setting) if cached else f"{setting}, no prefix cache"
        with report.stream(f"kgen, {name}", loaded, options.new_tokens) as on_token:
            engine = _engine(catalog, setting, cached, model, decode)
            runs.append(_run(engine, setting, begin(), options.new_tokens, stock, on_token))
    report.texts(loaded, runs[1].answers)
    report.compared(stock, runs)
    alike = [run.comparison for run in runs if run.setting == EXACT]
    report.verdict(alike, loaded)
    return 0 if all(comparison.identical for comparison in alike) else 1


def _engine(catalog: Catalog, setting: Setting, cached: bool, model: Model, decode: Decode | None) -> Engine:
    from kgen.engine import Engine, EngineConfig
    from kgen.runtime import SchedulerConfig
    from kgen.testing.memory import DTYPES

    config = EngineConfig(
        catalog.layout(setting.layout),
        POOL_TOKENS // setting.block_size,
        setting.block_size,
        DTYPES[setting.dtype],
        prefix_cache=cached,
        scheduler=SchedulerConfig(max_batch_tokens=CHUNK, max_sequences=16),
    )
    return Engine(model, config, decode=decode)


def _run(
    engine: Engine,
    setting: Setting,
    sessions: Sequence[Conversation],
    new_tokens: int,
    stock: Stock,
    on_token: OnToken,
) -> EngineRun:
    from kgen.demo.compare import compare
    from kgen.engine import SamplingParams, TokenEvent, converse, counted

    answers: dict[Name, Sequence[int]] = {}
    start = time.perf_counter()
    with counted() as kernels:
        for event in converse(engine, sessions, SamplingParams(max_new_tokens=new_tokens)):
            if isinstance(event, TokenEvent):
                on_token(cast("Name", event.request_id), event.token)
            else:
                answers[event.session, event.number] = event.result.completions[0].tokens
    seconds = time.perf_counter() - start
    engine.check_integrity()
    stats, memory = engine.stats, engine.memory.kv
    peak = stats.peak_blocks * memory.num_bytes // memory.num_blocks
    cached = engine.memory.cache is not None
    return EngineRun(setting, cached, answers, stats, seconds, dict(kernels), peak, compare(stock, answers))
