"""Code that is no variant, such as the Python binding and the loops of benchmarks, through the same cache."""

from __future__ import annotations

import dataclasses
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from kgen import paths
from kgen.build import toolchains
from kgen.build.build import build_jobs
from kgen.build.cache import Cache
from kgen.build.headers import HeaderReader
from kgen.build.job import Job, keyed
from kgen.build.progress import Mode, Reporter, reporter
from kgen.build.toolchains import Toolchain
from kgen.manifest import Entry
from kgen.spec.model import TargetSpec


def build_shared(
    source_text: str,
    name: str,
    flags: Sequence[str] = (),
    *,
    symbol: str,
    includes: Sequence[Path] = (),
    identity: str = "",
    cache_dir: Path | None = None,
    progress: Mode | Reporter = "auto",
    compile: bool = True,
) -> Path | None:
    """The path of the shared library this source compiles to with the host's compiler; None where
    it is not in the cache and `compile` is off.

    `symbol` must be visible in it (`PyInit_<name>` for a Python module). `flags` enter the key;
    `includes` are folders of foreign headers, which do not: `identity` says which version of
    them is meant (of Python and pybind11). Undefined symbols are allowed, as a module has them.

    Raises KgenError as `build` does.
    """
    toolchain = toolchains.host("cpu", tuple(flags))
    loose = tuple(word for word in toolchain.flags if word != toolchains.NO_UNDEFINED)
    toolchain = dataclasses.replace(toolchain, flags=loose)
    headers = HeaderReader(paths.include_dir()).read((), name)
    more = tuple(word for folder in includes for word in ("-isystem", str(folder)))
    job = Job(
        _entry(name, symbol, toolchain, "host"), source_text, "source.cpp", headers, toolchain, more=more
    )
    job = keyed(job, identity)
    cache = Cache(cache_dir or paths.cache_dir())
    if not compile and cache.lookup(job.key) is None:
        return None
    (built,) = build_jobs([job], cache, None, reporter(progress))
    return cache.root / built.artefact


def build_for_target(
    source_text: str,
    name: str,
    target: TargetSpec,
    *,
    symbol: str,
    headers: Sequence[str] = (),
    simulated: bool = False,
    progress: Mode | Reporter = "auto",
) -> Path:
    """The path of what this source compiles to for a GPU target: an image for its driver, or with
    `simulated` a shared library for this host. `headers` are all it needs of templates/include.

    Raises KgenError as `build` does.
    """
    toolchain = toolchains.for_target(target, simulated)
    read = HeaderReader(paths.include_dir()).read(tuple(headers), name)
    entry = _entry(name, symbol, toolchain, target.name)
    cache = Cache(paths.cache_dir())
    job = keyed(Job(entry, source_text, "source.cpp", read, toolchain))
    (built,) = build_jobs([job], cache, None, reporter(progress))
    return cache.root / built.artefact


def _entry(name: str, symbol: str, toolchain: Toolchain, target: str) -> Entry:
    return Entry(
        name=name,
        op="",
        key="",
        params={},
        target=target,
        kind=toolchain.kind,
        artefact=toolchain.artefact,
        symbol=symbol,
        sha256="",
    )


def python_headers() -> list[Path] | None:
    """The include folders of this Python and of pybind11, or None where either has no headers."""
    try:
        import pybind11
    except ImportError:
        return None
    names = (sysconfig.get_path("include"), sysconfig.get_path("platinclude"), pybind11.get_include())
    folders = list(dict.fromkeys(Path(name) for name in names))
    headers = ("Python.h", "pybind11/pybind11.h")
    if all(any((folder / header).is_file() for folder in folders) for header in headers):
        return folders
    return None


def python_identity() -> str:
    """What a Python module must match: the interpreter's ABI and pybind11's version."""
    import pybind11

    return f"{sysconfig.get_config_var('SOABI')} pybind11 {pybind11.__version__}"
