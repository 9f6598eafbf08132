"""Where the halves meet: check, expand and build from Python, and what dispatch asks of the compiler."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kgen import env, paths
from kgen.diagnostics import Diagnostic, KgenError, choice_hint
from kgen.dispatch.model import Built, Compiler
from kgen.manifest import Entry, Policy, Scalar
from kgen.spec.catalog import Catalog
from kgen.spec.model import OpSpec
from kgen.variants.model import Matrix, Rejected, Variant

if TYPE_CHECKING:
    from kgen.build.progress import Mode, Reporter
    from kgen.dispatch.dispatcher import Dispatcher
    from kgen.tuning import TuningTable

log = logging.getLogger("kgen")

ON_DEMAND = "on-demand"


def check(specs_dir: Path | None = None) -> Catalog:
    """Read and check every spec. Raises KgenError with all faults of all files."""
    from kgen.spec.load import load_catalog

    return load_catalog(specs_dir)


def expand(build_spec: str | Path, arch: str | None = None, catalog: Catalog | None = None) -> Matrix:
    """The variants of a build: a file, or the bare name of a shipped one. `arch` is what `native`
    stands for, this machine's best target where None; `catalog` the shipped one."""
    from kgen.spec.load import load_build
    from kgen.targets.host import native_target
    from kgen.variants.matrix import expand as expand_build

    known = catalog or check()
    return expand_build(load_build(build_path(build_spec), known), known, arch or native_target(known))


def build(build_spec: str | Path, arch: str | None = None, jobs: int | None = None) -> tuple[Entry, ...]:
    """Build every variant of a build and register them under its name, for dispatch to find."""
    return build_matrix(expand(build_spec, arch), jobs)


def build_matrix(
    matrix: Matrix,
    jobs: int | None = None,
    progress: Mode | Reporter = "auto",
    *,
    chosen: Sequence[Variant] | None = None,
    out: Path | None = None,
) -> tuple[Entry, ...]:
    """Build the accepted variants, or those `chosen` of them, and register them under the build's
    name; with `out`, also write a library there that stands alone. Raises KgenError with every fault."""
    from kgen.build.library import register_library, write_library

    variants = matrix.accepted if chosen is None else chosen
    entries = build_variants(variants, jobs, progress)
    policies = _policies(variants)
    register_library(matrix.build, entries, policies, keep=chosen is not None)
    if out is not None:
        write_library(out, matrix.build, entries, policies)
    return entries


def check_sources(
    matrix: Matrix, jobs: int | None = None, progress: Mode | Reporter = "auto"
) -> tuple[Entry, ...]:
    """Check that the sources of the accepted variants compile, without making kernels; for a chip that no
    compiler here knows, on its stand-in. Raises KgenError with every fault."""
    from kgen.build.build import build as build_rendered
    from kgen.render.emit import render

    rendered = [render(variant) for variant in matrix.accepted]
    return build_rendered(rendered, jobs=jobs, progress=progress, syntax_only=True)


def compile_commands(matrix: Matrix, file: Path) -> bool:
    """Write how each accepted variant compiles, for editors and static checkers; whether it changed."""
    from kgen.build.compdb import write_compile_commands
    from kgen.render.emit import render

    return write_compile_commands(file, [render(variant) for variant in matrix.accepted])


def build_variants(
    variants: Sequence[Variant], jobs: int | None = None, progress: Mode | Reporter = "auto"
) -> tuple[Entry, ...]:
    """Render and build variants; entries in the same order."""
    from kgen.build.build import build as build_rendered
    from kgen.render.emit import render

    return build_rendered([render(variant) for variant in variants], jobs=jobs, progress=progress)


def jit(op: str, params: Mapping[str, Scalar]) -> Entry:
    """Build one variant and register it with those built on demand before.

    Raises KgenError: K522 where the combination is never generated, K4xx where it cannot be built.
    """
    from kgen.build.library import register_library

    variant = _variant(op, params)
    if isinstance(variant, Rejected):
        raise KgenError(_refusal(variant))
    (entry,) = build_variants([variant], progress=_LogLine())
    register_library(ON_DEMAND, [entry], _policies([variant]), keep=True)
    return entry


def build_ahead(wanted: Sequence[tuple[str, Mapping[str, Scalar]]], jobs: int | None = None) -> int:
    """Build variants, given as operator and parameters, that calls would build one by one; how many. Calls of
    this process find them. What is never generated is left for its call to refuse. Raises KgenError (K4xx)
    where one cannot be built."""
    from kgen.build.library import register_library

    found = [_variant(op, params) for op, params in wanted]
    variants = list({one.name: one for one in found if isinstance(one, Variant)}.values())
    if variants:
        register_library(ON_DEMAND, build_variants(variants, jobs), _policies(variants), keep=True)
        dispatcher().registry.refresh()
    return len(variants)


def dispatcher() -> Dispatcher:
    """The dispatcher behind `kgen.ops`."""
    from kgen.dispatch import calls

    calls.install(compiler)
    return calls.dispatcher()


def compiler() -> Compiler:
    """What dispatch needs of the compile half."""
    return _Compiler()


class _Compiler:
    """The compile half as dispatch sees it (`kgen.dispatch.model.Compiler`)."""

    def policy(self, op: str) -> Policy:
        return _policy(_catalog().op(op))

    def native(self) -> str:
        from kgen.targets.host import native_target

        return native_target(_catalog())

    def features(self) -> frozenset[str]:
        from kgen.targets.host import host_features

        return host_features()

    def reject(self, op: str, params: Mapping[str, Scalar]) -> Diagnostic | None:
        variant = _variant(op, params)
        return _refusal(variant) if isinstance(variant, Rejected) else None

    def build(self, op: str, params: Mapping[str, Scalar]) -> Built:
        return Built(jit(op, params), paths.cache_dir(), ON_DEMAND)

    def binding(self) -> Path | None:
        return build_binding()

    def tuning(self, op: str, target: str) -> tuple[TuningTable, ...]:
        return tuning_tables(op, target)


def tuning_files(op: str, target: str) -> list[Path]:
    """The files that may hold tuning tables of an operator on a target, in the order they are looked at."""
    return sorted(paths.tune_dir().glob(f"{op}.{target}.*yaml"))


def tuning_tables(op: str, target: str) -> tuple[TuningTable, ...]:
    """The tables that hold for an operator's kernels on a target; one of another compiler does not, and is
    passed over with a line in the log. Raises KgenError with the faults of a file that is no table."""
    from kgen.spec.load import load_tuning

    found = []
    for file in tuning_files(op, target):
        table = load_tuning(file, _catalog().ops)
        current = compiler_version(target)
        if (table.op, table.target) != (op, target):
            log.warning("%s is passed over: it is of %s on %s", file, table.op, table.target)
        elif current and table.compiler != current:
            log.warning(
                "%s is passed over: it is of kernels by %s; the compiler here is %s",
                *(file, table.compiler, current),
            )
        else:
            found.append(table)
    return tuple(found)


def compiler_version(target: str) -> str:
    """The compiler of a target's kernels in one line; empty where none is here."""
    from kgen.build.toolchains import for_target

    try:
        return for_target(_catalog().target(target), simulated=False).version
    except KgenError:
        return ""


def build_binding() -> Path | None:
    """The compiled launcher for this Python; None where Python's or pybind11's headers are missing,
    or where it is not built and KGEN_JIT=0.

    Raises KgenError (K4xx) where it does not compile.
    """
    from kgen.build.shared import build_shared, python_headers, python_identity

    headers = python_headers()
    if headers is None:
        return None
    folder = Path(__file__).parent / "dispatch" / "binding"
    own_headers = b"".join(file.read_bytes() for file in sorted(folder.glob("*.hpp")))
    own = hashlib.sha256(own_headers).hexdigest()
    return build_shared(
        (folder / "binding.cpp").read_text(encoding="utf-8"),
        "kgen_binding",
        ("-O1",),
        symbol="PyInit_kgen_binding",
        includes=[folder, *headers],
        identity=f"{python_identity()} {own}",
        progress=_LogLine(),
        compile=env.jit(),
    )


class _LogLine:
    """Tells of a build on demand in one line of the log; of one that is done already in none."""

    def begin(self, total: int, jobs: int) -> None: ...

    def started(self, name: str) -> None:
        log.warning("building %s (once; it is kept in the cache)", name)

    def finished(self, name: str, seconds: float, ok: bool) -> None: ...

    def waiting(self, name: str, holder: str) -> None:
        log.info("waiting for %s, which %s builds", name, holder)

    def end(self) -> None: ...


@functools.cache
def _catalog() -> Catalog:
    return check()


def _variant(op: str, params: Mapping[str, Scalar]) -> Variant | Rejected:
    from kgen.variants.matrix import make_variant

    return make_variant(_catalog().op(op), params, _catalog())


def _refusal(rejected: Rejected) -> Diagnostic:
    shown = ", ".join(f"{name} {value}" for name, value in rejected.params.items())
    message = f"{rejected.op}: this combination is never generated: {rejected.because}"
    return Diagnostic("K522", message, rejected.where, notes=(f"the combination: {shown}",))


def _policies(variants: Sequence[Variant]) -> list[Policy]:
    ops = {variant.op.name: variant.op for variant in variants}
    return [_policy(op) for op in ops.values()]


def _policy(op: OpSpec) -> Policy:
    from kgen.render.sources import sources_hash
    from kgen.variants.policy import compile_policy

    return dataclasses.replace(compile_policy(op, _catalog().targets), sources=sources_hash())


def build_path(build_spec: str | Path) -> Path:
    """The file of a build; a bare name stands for a shipped one unless a file has that very name."""
    return _spec_path("build", "builds", build_spec)


def bench_path(bench_spec: str | Path) -> Path:
    """The file of a grid of benchmarks; a bare name stands for a shipped one, as for a build."""
    return _spec_path("grid", "benches", bench_spec)


def _spec_path(what: str, folder_name: str, spec: str | Path) -> Path:
    path = Path(spec)
    if path.suffix or len(path.parts) > 1 or path.is_file():
        return path
    folder = paths.specs_dir() / folder_name
    if (folder / f"{path}.yaml").is_file():
        return paths.shown(folder / f"{path}.yaml")
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    raise KgenError(
        Diagnostic("K105", f"there is no {what} named '{path}'", hint=choice_hint(str(path), known))
    )
