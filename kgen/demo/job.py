"""The steps of the main job, each a function from what came before to what it found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgen import api

if TYPE_CHECKING:
    from kgen.demo.compare import Comparison
    from kgen.demo.decode import Decoded
    from kgen.demo.report import Report
    from kgen.integrations.load import Loaded
    from kgen.layout import Layout
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


# The run whose tokens must be those of the stock model, and one in half the memory beside it.
EXACT = Setting("f32", "bshd", 16)
COMPACT = Setting("bf16", "bhsd", 32)


@dataclass(frozen=True)
class PagedRun:
    """A decoding on kgen: its tokens, what ran how often, and how it compares."""

    setting: Setting
    decoded: Decoded
    kernels: Mapping[str, int]
    cache_bytes: int
    comparison: Comparison


def main(options: Options, report: Report) -> int:
    """Run every step, telling `report`. Returns 0 where the tokens are identical, else 1."""
    matrix, catalog = specs(options, report)
    build(matrix, options, report)
    if not verify(matrix, report):
        return 1
    return decode(catalog, options, report)


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


def decode(catalog: Catalog, options: Options, report: Report) -> int:
    """Decode the prompts with the stock model and on kgen, and compare."""
    from kgen.demo import decode as loops
    from kgen.demo.prompts import encode
    from kgen.integrations.load import load
    from kgen.integrations.transformers import register

    report.title("decode", "the same prompts, with the stock model and on kgen")
    with report.waiting("loading the model"):
        loaded = load(random_weights=options.random_weights)
    prompts = encode(loaded.tokenizer, loaded.model.config.vocab_size)
    report.loaded(loaded, [len(prompt) for prompt in prompts])
    register()
    with report.stream("stock model", loaded, len(prompts), options.new_tokens) as on_tokens:
        stock = loops.decode_stock(loaded.model, prompts, options.new_tokens, on_tokens)
    runs = []
    for setting in (EXACT, COMPACT):
        with report.stream(f"kgen, {setting}", loaded, len(prompts), options.new_tokens) as on_tokens:
            runs.append(_paged(catalog, setting, loaded, prompts, stock, options, on_tokens))
    report.texts(loaded, runs[0].decoded)
    report.compared(stock, runs)
    exact = runs[0].comparison
    report.verdict(exact, loaded)
    return 0 if exact.identical else 1


def _paged(
    catalog: Catalog,
    setting: Setting,
    loaded: Loaded,
    prompts: Sequence[Sequence[int]],
    stock: Decoded,
    options: Options,
    on_tokens: Any,
) -> PagedRun:
    from kgen.demo.compare import compare
    from kgen.demo.decode import decode_paged
    from kgen.engine.counting import counted
    from kgen.integrations.transformers import PagedCache
    from kgen.testing.memory import DTYPES

    layout: Layout = catalog.layout(setting.layout)
    cache = PagedCache(
        loaded.model.config,
        num_sequences=len(prompts),
        max_tokens=max(map(len, prompts)) + options.new_tokens,
        layout=layout,
        block_size=setting.block_size,
        dtype=DTYPES[setting.dtype],
    )
    with counted() as kernels:
        decoded = decode_paged(loaded.model, prompts, options.new_tokens, cache, on_tokens)
    end = None if loaded.tokenizer is None else loaded.tokenizer.eos_token_id
    return PagedRun(setting, decoded, dict(kernels), cache.num_bytes, compare(stock, decoded, end))
