"""A file that rows are appended to, each by one write: what is written outlives a kill.

Jobs close descriptors that they do not know (daemons, ``os.closerange``), and the number may come to mean a file of
theirs. So ours stands high, where new files of the job do not come, and is compared with the file now and then.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

HIGH = 500  # below the usual limit of 1024


class Appender:
    """Appends to ``path``, which is made with its directory where it is missing.

    Raises:
        OSError: The file cannot be made; from every method too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open()

    def write(self, row: bytes) -> None:
        """Append ``row``."""
        try:
            written = os.write(self._fd, row)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            self.check()
            written = os.write(self._fd, row)
        if written != len(row):
            raise OSError(errno.ENOSPC, f"{self.path} takes no more rows (is the disk full?)")

    def check(self) -> bool:
        """Open the file anew if the descriptor is no more ours or the file was deleted; False when it was deleted."""
        there = self._links()
        if there == 0:
            os.close(self._fd)
        if not there:
            self._open()
        return there != 0

    def close(self) -> None:
        """Close the descriptor, if it is still ours."""
        if self._links() is not None:
            os.close(self._fd)

    def _links(self) -> int | None:
        """Return how many names our file still has, or None when the descriptor is closed or somebody else's."""
        try:
            found = os.fstat(self._fd)
        except OSError:
            return None
        return found.st_nlink if (found.st_dev, found.st_ino) == self._identity else None

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = _raised(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644))
        made = os.fstat(self._fd)
        self._identity = made.st_dev, made.st_ino


def _raised(fd: int) -> int:
    """Return ``fd`` under a number from ``HIGH`` on, where the system has that."""
    with suppress(ImportError, OSError):  # Windows; a limit below HIGH
        import fcntl

        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH)
        os.close(fd)
        return high
    return fd
