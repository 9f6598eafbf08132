"""The kernels that are built and can run here.

Libraries come from the cache, from KGEN_LIBRARY and from the program. A library of another spec,
argument block or schema, and a kernel whose instructions this machine lacks, are passed over,
with the reason kept. Artefacts are hashed and opened when they are first used.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kgen import env, paths
from kgen.diagnostics import KgenError
from kgen.dispatch.errors import fault
from kgen.dispatch.model import Built, Names, Skipped
from kgen.manifest import ABI_VERSION, Entry, Library, Policy, VariantRule
from kgen.manifest_read import read_library

FILE = "library.json"
HOST_KINDS = ("cpu", "sim")
GPU_KINDS = ("cuda", "hip")
LOADABLE = (*HOST_KINDS, *GPU_KINDS)


@dataclass(frozen=True)
class Loaded:
    """A kernel in this process: the address of its entry, and the library that keeps it there; of a
    GPU kernel the image that its driver loads."""

    address: int
    library: ctypes.CDLL | None
    image: bytes = b""


class Registry:
    """All usable kernels, by operator and parameters."""

    def __init__(self, features: Callable[[], frozenset[str]], policy: Callable[[str], Policy]) -> None:
        self._features = features
        self._policy = policy
        self._lock = threading.RLock()
        self._added: list[Built] = []
        self._places: tuple[str | None, ...] = ()
        self._stamps: tuple[tuple[Path, int], ...] | None = None
        self._kernels: dict[str, dict[str, Built]] = {}
        self._answers: dict[tuple[object, ...], tuple[Built, ...]] = {}  # of `kernels`, until one changes
        self._skipped: list[Skipped] = []
        self._loaded: dict[tuple[str, str], Loaded] = {}
        self._rules: dict[str, Mapping[str, VariantRule]] = {}  # of `rules`, until a kernel changes
        self._replaced: dict[str, list[Built]] = {}  # by operator; another library has one of the name

    def add(self, kernels: Iterable[Built]) -> None:
        """Register kernels that were just built; they replace others of the same name."""
        with self._lock:
            for kernel in kernels:
                self._added.append(kernel)
                self._register(kernel)

    def add_library(self, folder: Path) -> None:
        """Register a library by its folder or its file. Raises KgenError where it is unusable."""
        file = folder / FILE if folder.is_dir() else folder
        library = read_library(file)
        self.add(Built(entry, file.parent, library.name) for entry in self._usable(library, library.name))

    def kernels(self, op: str, fixed: Names) -> tuple[Built, ...]:
        """The usable kernels of `op` with these fixed parameters, by name."""
        with self._lock:
            if self._places != _places():
                self.refresh()
            key = (op, *sorted(fixed.items()))
            if key not in self._answers:
                self._answers[key] = self._search(op, fixed)
            return self._answers[key]

    def _search(self, op: str, fixed: Names) -> tuple[Built, ...]:
        found = self._kernels.get(op, {})
        return tuple(
            found[name]
            for name in sorted(found)
            if all(found[name].entry.params.get(key) == value for key, value in fixed.items())
        )

    def rules(self, op: str) -> Mapping[str, VariantRule]:
        """The variants that builds have defined for kernels of `op`, by name.

        Raises KgenError (K524) where two builds give one name two meanings.
        """
        with self._lock:
            if self._places != _places():
                self.refresh()
            if op not in self._rules:
                self._rules[op] = _rules([*self._kernels.get(op, {}).values(), *self._replaced.get(op, ())])
            return self._rules[op]

    def skipped(self) -> tuple[Skipped, ...]:
        """What was found and passed over."""
        with self._lock:
            self.refresh()
            return tuple(self._skipped)

    def drop(self, kernel: Built, reason: str) -> None:
        """Forget a kernel that turned out unusable."""
        with self._lock:
            self._kernels.get(kernel.entry.op, {}).pop(kernel.entry.name, None)
            self._answers.clear()
            self._added = [k for k in self._added if k is not kernel]
            self._skipped.append(Skipped(kernel.entry.name, reason))

    def load(self, kernel: Built) -> Loaded:
        """The kernel in this process. Raises KgenError (K523) where its file is not what was built."""
        key = (kernel.entry.sha256, kernel.entry.symbol)
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = _open(kernel)
            return self._loaded[key]

    def refresh(self) -> bool:
        """Read the libraries again where the places to look in, or the files there, changed.

        Happens by itself when the environment names other places; a program that is about to
        build asks for it, in case another has built meanwhile. Returns whether anything changed.
        """
        with self._lock:
            self._places = _places()
            sources = _sources()
            stamps = tuple((source, _stamp(source)) for source in sources)
            if stamps == self._stamps:
                return False
            self._stamps = stamps
            self._kernels, self._skipped, self._replaced = {}, [], {}
            self._answers.clear()
            self._rules.clear()
            for source in reversed(sources):  # the first source has the last word
                self._read(source)
            for kernel in self._added:
                self._register(kernel)
            return True

    def _read(self, file: Path) -> None:
        try:
            library = read_library(file)
            for entry in self._usable(library, str(file), _in_cache(file)):
                self._register(Built(entry, file.parent, library.name))
        except KgenError as error:
            self._skipped.append(Skipped(str(file), error.diagnostics[0].message))

    def _usable(self, library: Library, name: str, cached: bool = False) -> list[Entry]:
        stale = {p.op: reason for p in library.policies if (reason := self._stale(p, cached))}
        self._skipped += [Skipped(f"{name}: {op}", reason) for op, reason in stale.items()]
        usable = []
        for entry in library.entries:
            reason = stale.get(entry.op) or self._unfit(entry)
            if reason is None:
                usable.append(entry)
            elif entry.op not in stale:
                self._skipped.append(Skipped(entry.name, reason))
        return usable

    def _stale(self, policy: Policy, cached: bool) -> str | None:
        """Why kernels under this policy are not used. What the cache registered must also come from the
        templates of today: it can be built again. A library that was carried here is taken as it is.
        """
        try:
            current = self._policy(policy.op)
        except KgenError as error:
            return error.diagnostics[0].message
        if current.spec_hash == policy.spec_hash:
            if not cached or current.sources == policy.sources:
                return None
            return (
                f"built from other templates or targets ({policy.sources[:12]}; now {current.sources[:12]})"
            )
        return (
            f"built from another spec of {policy.op} ({policy.spec_hash[:12]}; now {current.spec_hash[:12]})"
        )

    def _unfit(self, entry: Entry) -> str | None:
        if entry.abi != ABI_VERSION:
            return f"argument block version {entry.abi}; this kgen fills version {ABI_VERSION}"
        if entry.kind not in LOADABLE:
            return f"kind '{entry.kind}' is not launched on this machine"
        missing = [flag for flag in entry.requires if flag not in self._features()]
        return f"this machine lacks {', '.join(missing)}" if missing else None

    def _register(self, kernel: Built) -> None:
        known = self._kernels.setdefault(kernel.entry.op, {})
        before = known.get(kernel.entry.name)
        if before is not None and before.library != kernel.library and before.entry.variant is not None:
            self._replaced.setdefault(kernel.entry.op, []).append(before)
        known[kernel.entry.name] = kernel
        self._answers.clear()
        self._rules.pop(kernel.entry.op, None)


def _rules(kernels: Iterable[Built]) -> Mapping[str, VariantRule]:
    found: dict[str, tuple[VariantRule, str]] = {}
    for kernel in kernels:
        rule = kernel.entry.variant
        if rule is None:
            continue
        before, library = found.setdefault(rule.name, (rule, kernel.library))
        if before.meaning != rule.meaning:
            message = (
                f"the builds '{library}' and '{kernel.library}' give the mask '{rule.name}' two meanings"
            )
            notes = (f"one is at {before.where}", f"the other at {rule.where}")
            raise fault("K524", message, "rename one of them and build it again", notes)
    return {name: rule for name, (rule, _) in found.items()}


def _places() -> tuple[str | None, ...]:
    """The variables that say where libraries are."""
    return tuple(os.environ.get(name) for name in ("KGEN_LIBRARY", "KGEN_CACHE_DIR", "XDG_CACHE_HOME"))


def _sources() -> tuple[Path, ...]:
    """Library files, the most important first: KGEN_LIBRARY, then what the cache registered."""
    named = [path / FILE if path.is_dir() else path for path in env.library()]
    folder = paths.cache_dir() / "libraries"
    registered = sorted({*folder.glob(f"*/{FILE}"), *folder.glob("*.json")})
    return (*named, *registered)


def _in_cache(file: Path) -> bool:
    return file.is_relative_to(paths.cache_dir() / "libraries")


def _stamp(file: Path) -> int:
    try:
        status = file.stat()
    except OSError:
        return 0
    return hash((status.st_mtime_ns, status.st_size, status.st_ino))


def _image(kernel: Built) -> bytes:
    """The bytes of an artefact. Raises KgenError (K523) where they are not what was built."""
    entry = kernel.entry
    try:
        image = (kernel.folder / entry.artefact).read_bytes()
    except OSError as error:
        raise fault("K523", f"cannot read {entry.artefact} of {entry.name}: {error.strerror}") from error
    if hashlib.sha256(image).hexdigest() != entry.sha256:
        hint = "delete it, or run `kgen build` again"
        raise fault("K523", f"{entry.artefact} of {entry.name} is not the file that was built", hint)
    return image


def _open(kernel: Built) -> Loaded:
    entry = kernel.entry
    image = _image(kernel)
    if entry.kind in GPU_KINDS:
        return Loaded(0, None, image)
    try:
        library = ctypes.CDLL(str(kernel.folder / entry.artefact), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        function = getattr(library, entry.symbol)
    except (OSError, AttributeError) as error:
        raise fault("K523", f"cannot load {entry.artefact} of {entry.name}: {error}") from error
    return Loaded(ctypes.cast(function, ctypes.c_void_p).value or 0, library)


def by_arch(kernels: Iterable[Built]) -> Mapping[str, list[Built]]:
    """Kernels grouped by the arch they were built for."""
    groups: dict[str, list[Built]] = {}
    for kernel in kernels:
        groups.setdefault(str(kernel.entry.params.get("arch", kernel.entry.target)), []).append(kernel)
    return groups
