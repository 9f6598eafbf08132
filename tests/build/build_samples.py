"""Small variants and slow compilers, for the tests here and for the processes they start.

Run as a program it builds: `build_samples.py FOLDER NAME ANSWER [NAME ANSWER ...]` makes those
variants in the cache of the environment, loads each and prints what it answers.
"""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from pathlib import Path

from kgen import paths
from kgen.build.build import build
from kgen.build.cache import Cache
from kgen.diagnostics import Source, Span
from kgen.manifest import Entry
from kgen.render.model import LineOrigin, Rendered
from kgen.spec.model import OpSpec, TargetSpec
from kgen.variants.model import Variant

SPAN = Span(Source("tiny.yaml", "op: tiny\n"), 1, 1, 1, 3)
GENERIC = TargetSpec("cpu_generic", "", SPAN, "cpu", 1, 128, "cxx", (), ())
AVX2 = TargetSpec("cpu_avx2", "", SPAN, "cpu", 1, 256, "cxx", ("-mavx2", "-mfma"), ("avx2", "fma"))
GFX942 = TargetSpec("gfx942", "", SPAN, "amd", 64, 128, "hip", ("--offload-arch=gfx942",), (), 65536)
SM_90 = TargetSpec("sm_90", "", SPAN, "nvidia", 32, 128, "nvcc", ("-arch=sm_90",), (), 232448)

HEAD = "#include <cstdint>\n"
EXPORT = 'extern "C" __attribute__((visibility("default"))) int '


def body(symbol: str, answer: int) -> str:
    """A kernel that answers a number."""
    return f"{HEAD}{EXPORT}{symbol}(const int64_t* args) {{ return args == nullptr ? {answer} : 0; }}\n"


def op(name: str = "tiny") -> OpSpec:
    return OpSpec(
        name=name,
        doc="",
        span=SPAN,
        spec_hash="0" * 64,
        templates={},
        params=(),
        lets=(),
        requires=(),
        arguments=(),
        facts=(),
        guards=(),
        select=(),
        variants={},
        grids={},
        tests=(),
        layouts={},
    )


def rendered(name: str, answer: int = 7, **changes) -> Rendered:
    """A variant that answers `answer`; changes: text, target, simulated, headers, lets, origins,
    params, suffix, launch."""
    target = changes.get("target", GENERIC)
    variant = Variant(
        name=name,
        op=op(),
        target=target,
        params=changes.get("params", {"arch": target.name}),
        lets=changes.get("lets", {}),
        simulated=changes.get("simulated", False),
    )
    text = changes.get("text") or body(name, answer)
    origins = tuple(LineOrigin(*origin) for origin in changes.get("origins", ()))
    return Rendered(
        variant=variant,
        text=text,
        suffix=changes.get("suffix", ".cpp"),
        headers=tuple(changes.get("headers", ())),
        symbol=name,
        launch=changes.get("launch"),
        origins=origins,
    )


def answer(entry: Entry, cache: Path) -> int:
    """Load the kernel and ask it."""
    library = ctypes.CDLL(str(cache / entry.artefact))
    return int(getattr(library, entry.symbol)(None))


class Sample:
    """Builds into `<folder>/cache` and knows how often a compiler ran there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = Cache(folder / "cache")
        self.include = folder / "include"
        self.include.mkdir()
        self.counter = folder / "compiles"
        self.started: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """End the processes that are still there."""
        for process in self.started:
            process.kill()
            process.communicate()

    def build(self, *items: Rendered, **options) -> tuple[Entry, ...]:
        options = {"progress": "none", "jobs": 2, "include_dir": self.include, **options}
        return build(items, **options)

    def answer(self, entry: Entry) -> int:
        return answer(entry, self.cache.root)

    def compiler(self, name: str, before: str = "", real: str = "g++") -> Path:
        """A compiler that notes each compile, runs `before` (shell), and then the real one."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            "#!/bin/sh\n"
            f'case "$1" in --version|-dumpmachine) exec {real} "$@";; esac\n'
            f'echo $$ >> {self.counter}\n{before}\nexec {real} "$@"\n'
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    @property
    def compiles(self) -> int:
        """How many compiles the compilers made here noted."""
        return len(self.counter.read_text().split()) if self.counter.exists() else 0

    def start(self, *pairs: tuple[str, int], **environment: str) -> subprocess.Popen[str]:
        """Another process that builds variants by name and prints their answers."""
        words = [word for name, number in pairs for word in (name, str(number))]
        process = subprocess.Popen(
            [sys.executable, __file__, str(self.folder), *words],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process


def main(folder: str, *words: str) -> None:
    pairs = list(zip(words[::2], map(int, words[1::2]), strict=True))
    items = [rendered(name, number) for name, number in pairs]
    entries = build(items, progress="plain", jobs=2, include_dir=Path(folder) / "include")
    print(*[answer(entry, paths.cache_dir()) for entry in entries])


if __name__ == "__main__":
    main(*sys.argv[1:])
