"""The headers of one build call: read once, hashed, and written out for the compiler.

A variant is compiled against exactly the headers it declares, from a snapshot of the bytes that
entered its key. So a header nobody declared cannot be included, and one that is edited while
compilers run cannot slip in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from kgen.diagnostics import Diagnostic, KgenError


@dataclass(frozen=True)
class HeaderSet:
    """Some headers, by path below templates/include, with their contents."""

    files: tuple[tuple[str, bytes], ...]
    digest: str

    def write(self, folder: Path) -> None:
        """Write every header below `folder`, which does not exist yet."""
        folder.mkdir(parents=True)
        for name, content in self.files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@dataclass
class HeaderReader:
    """Reads headers below `root`, each at most once."""

    root: Path
    _contents: dict[str, bytes] = field(default_factory=dict)
    _sets: dict[tuple[str, ...], HeaderSet] = field(default_factory=dict)

    def read(self, names: tuple[str, ...], wanted_by: str) -> HeaderSet:
        """The set of these headers. Raises KgenError (K408) for one that is not there."""
        names = tuple(sorted(set(names)))
        if names not in self._sets:
            files = tuple((name, self._content(name, wanted_by)) for name in names)
            self._sets[names] = HeaderSet(files, _digest(files))
        return self._sets[names]

    def _content(self, name: str, wanted_by: str) -> bytes:
        if name not in self._contents:
            if Path(name).is_absolute() or ".." in Path(name).parts:
                message = f"{wanted_by} includes {name}, which is outside templates/include"
                raise KgenError(Diagnostic("K408", message))
            try:
                self._contents[name] = (self.root / name).read_bytes()
            except OSError as error:
                message = f"{wanted_by} includes {name}, which cannot be read: {error.strerror}"
                raise KgenError(Diagnostic("K408", message)) from None
        return self._contents[name]


def _digest(files: tuple[tuple[str, bytes], ...]) -> str:
    whole = hashlib.sha256()
    for name, content in files:
        whole.update(f"{name}\0{len(content)}\0".encode())
        whole.update(content)
    return whole.hexdigest()
