"""One lock for each key: a file that is locked, never its existence.

The kernel drops a `flock` when its holder dies, so a killed builder blocks nobody. The files
stay: unlinking one would let two processes each hold "the" lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from kgen.diagnostics import Diagnostic, KgenError

_FIRST_NAP = 0.02
_LONGEST_NAP = 0.5


class FileLock:
    """An exclusive lock on `path`, held by this object until `release` or the process's end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free. Raises KgenError (K406) where the file system refuses."""
        fd = _open(self.path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                return False
            raise unwritable(self.path, error) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._fd = fd
        return True

    def acquire(self, waiting: Callable[[str], None]) -> None:
        """Take the lock however long that lasts; `waiting` is told who holds it, each time round."""
        nap = _FIRST_NAP
        while not self.try_acquire():
            waiting(self.holder())
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)

    def holder(self) -> str:
        """Who took the lock last, in words."""
        try:
            return self.path.read_text(errors="replace").strip() or "another process"
        except OSError:
            return "another process"

    def release(self) -> None:
        """Give the lock up; does nothing when it is not held."""
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)  # at once, even where a forked child keeps the file open
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> FileLock:
        if self._fd is None:
            self.acquire(lambda holder: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def unwritable(path: Path, error: OSError) -> KgenError:
    """The K406 for a cache that cannot be written."""
    reason = error.strerror or str(error)
    hint = "set KGEN_CACHE_DIR to a folder on a local file system that can be written"
    return KgenError(Diagnostic("K406", f"cannot write the kernel cache at {path}: {reason}", hint=hint))


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise unwritable(path, error) from None
