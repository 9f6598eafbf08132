"""Which compiler makes a variant, and with what words.

A `Toolchain` is a frozen description: how to run the compiler, what it is (without paths, so
that one compiler reached by two paths is one), its flags, and what it leaves behind. Four exist:
`cxx` for CPU targets, `sim` for GPU sources run on the host, `hip` for AMD and DCU code objects,
`nvcc` for NVIDIA cubins. Finding one raises KgenError K402 where no compiler is installed and K403
where those installed cannot compile for the target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kgen import env
from kgen.build import probe
from kgen.diagnostics import Diagnostic, KgenError
from kgen.spec.model import TargetSpec

NO_UNDEFINED = "-Wl,-z,defs"
_WARNINGS = ("-Wall", "-Wextra")
_HOST_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-shared",
    "-fno-math-errno",
    "-ffp-contract=fast",
    "-fvisibility=hidden",
    *_WARNINGS,
    "-Wno-psabi",
    NO_UNDEFINED,
    "-Wl,--as-needed",
)
_HIP_FLAGS = (
    "--offload-device-only",
    "--no-gpu-bundle-output",
    "-nogpulib",
    "-nogpuinc",
    "-fuse-cuid=none",
    "-std=c++17",
    "-O3",
    "-ffp-contract=fast",
    *_WARNINGS,
)
_NVCC_FLAGS = ("-cubin", "-std=c++17", "-O3", "-Xptxas", "-v")
_HIP_PROBE = 'extern "C" __attribute__((global)) void probe() {}\n'
_CLANGS = ("clang++", *(f"clang++-{version}" for version in range(22, 16, -1)))

_VERSION = re.compile(r"\d\.\d")

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Toolchain:
    """A compiler ready to run. `compiler` may hold paths and stays out of every key; `identity`
    and `flags` never hold one. `memory`: bytes one run of it may need."""

    name: str
    kind: str  # Entry.kind of what it makes
    compiler: tuple[str, ...]
    identity: str
    flags: tuple[str, ...]
    language: str  # the word after -x
    artefact: str
    memory: int

    @property
    def version(self) -> str:
        """The compiler's name and version in one line, for people and for tables that hold for it alone."""
        lines = [" ".join(line.split()) for line in self.identity.splitlines()]
        told = [line for line in lines if _VERSION.search(line) and "Copyright" not in line]
        return f"{self.name}: {'; '.join(told) or ' '.join(lines)}"

    def command(self, source: str, output: str, include: str, more: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The words that compile `source` to `output`; `include` holds the headers it names."""
        words = (*self.compiler, *self.words(include), *more)
        return (*words, "-x", self.language, source, "-o", output)

    def words(self, include: str) -> tuple[str, ...]:
        """Flags, include path, and the map that keeps that path out of what is built."""
        mapping = () if self.name == "nvcc" else (f"-ffile-prefix-map={include}=include",)
        return (*self.flags, *mapping, "-I", include)


def for_target(target: TargetSpec, simulated: bool) -> Toolchain:
    """The toolchain of a variant. Raises KgenError (K402, K403)."""
    if simulated:
        return host("sim", ("-DKGEN_SIM=1", "-O1"))  # compile time is most of a simulated call
    if target.compiler == "hip":
        return _hip(target)
    if target.compiler == "nvcc":
        return _nvcc(target)
    return host("cpu", target.flags)


def host(kind: str, flags: tuple[str, ...] = ()) -> Toolchain:
    """The host C++ compiler: CXX, or the first of g++, clang++ and c++ on PATH."""
    words = env.cxx()
    if words and probe.find(words[0]) is None:
        raise _missing("C++ compiler", f"CXX names {words[0]}, which is not there", "correct CXX or unset it")
    if not words:
        found = next((name for name in ("g++", "clang++", "c++") if probe.find(name)), None)
        if found is None:
            tried = "looked for g++, clang++ and c++ on PATH"
            hint = "install g++ (`apt install g++`, `dnf install gcc-c++`) or set CXX"
            raise _missing("C++ compiler", tried, hint)
        words = (found,)
    name = "sim" if kind == "sim" else "cxx"
    flags = (*_HOST_FLAGS, *_strict("-Werror"), *flags)
    return Toolchain(name, kind, words, probe.identity(words), flags, "c++", "kernel.so", 600 * MEGABYTE)


def _hip(target: TargetSpec) -> Toolchain:
    flags = (*_HIP_FLAGS, *_strict("-Werror"), *target.flags)
    refusals: list[str] = []
    for words in _hip_candidates():
        refusal = probe.refusal((*words, *flags), "hip", _HIP_PROBE)
        if refusal is None:
            identity = probe.identity(words)
            return Toolchain("hip", "hip", words, identity, flags, "hip", "kernel.co", 800 * MEGABYTE)
        refusals.append(f"{' '.join(words)}: {refusal}")
    what = f"compiler for {target.name}"
    if refusals:
        hint = "set KGEN_CLANG to a clang++ that knows the target, or ROCM_PATH to a ROCm or DTK"
        message = f"no {what}: each one found refuses it"
        notes = (*refusals, *_ways_out(target))
        raise KgenError(Diagnostic("K403", message, hint=_needs(target, hint), notes=notes))
    hint = "install clang-19 and lld-19, or set KGEN_CLANG to a clang++ or ROCM_PATH to a ROCm or DTK"
    raise _missing(what, "looked for clang++ and hipcc", _needs(target, hint), _ways_out(target))


def _needs(target: TargetSpec, hint: str) -> str:
    """Where a compiler comes from, in the words of the target where it has some."""
    return f"{target.name} needs {target.toolkit}; {hint}" if target.toolkit else hint


def _ways_out(target: TargetSpec) -> tuple[str, ...]:
    """What can be done with a target that nothing here compiles for."""
    runs = f"sim:{target.name} runs the same kernels on this machine"
    return (f"{runs}; `kgen build --syntax-only` checks their sources",) if target.stand_in else ()


def _hip_candidates() -> Iterator[tuple[str, ...]]:
    """Compilers to try, the user's word first; only those that exist."""
    chosen = env.clang()
    if chosen:
        if probe.find(chosen[0]) is None:
            hint = "correct KGEN_CLANG or unset it"
            raise _missing("clang++", f"KGEN_CLANG names {chosen[0]}, which is not there", hint)
        yield chosen
        return
    roots = [root for root in (env.rocm_path(), Path("/opt/rocm"), Path("/opt/dtk")) if root]
    inside = [str(root / tail) for root in roots for tail in ("llvm/bin/clang++", "bin/hipcc")]
    for name in (*inside, *_CLANGS, "hipcc"):
        if probe.find(name):
            yield (name,)


def _nvcc(target: TargetSpec) -> Toolchain:
    home = env.cuda_home()
    if home is not None and probe.find(str(home / "bin/nvcc")) is None:
        hint = "correct CUDA_HOME or unset it"
        raise _missing("nvcc", f"CUDA_HOME is {home}, which has no bin/nvcc", hint)
    names = [str(home / "bin/nvcc")] if home else ["nvcc", "/usr/local/cuda/bin/nvcc"]
    found = next((name for name in names if probe.find(name)), None)
    if found is None:
        hint = _needs(target, "install the CUDA toolkit and set CUDA_HOME to it")
        raise _missing(f"nvcc for {target.name}", "looked on PATH and in /usr/local/cuda", hint)
    flags = (*_NVCC_FLAGS, *_strict("-Werror", "all-warnings"), *target.flags)
    identity = probe.identity((found,))
    return Toolchain("nvcc", "cuda", (found,), identity, flags, "cu", "kernel.cubin", 1200 * MEGABYTE)


def _strict(*flags: str) -> tuple[str, ...]:
    """The flags that turn warnings into errors, where KGEN_WERROR asks for it: a compiler newer than
    the templates may warn of more, and must still build."""
    return flags if env.warnings_are_errors() else ()


def _missing(what: str, tried: str, hint: str, notes: tuple[str, ...] = ()) -> KgenError:
    return KgenError(Diagnostic("K402", f"no {what} found: {tried}", hint=hint, notes=notes))
