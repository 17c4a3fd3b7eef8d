"""A file of rows to which several processes append at once, in parts that can become something else when they are full.

A row is a line of JSON, appended by one ``write``: a kill loses no finished row. Before each write a process looks how
large its part is and goes on to the next when it is full; so nobody writes any more to the part before the last one.
"""

from __future__ import annotations

import os
from pathlib import Path

PART_BYTES = 16 << 20


class RowFile:
    """The parts ``<stem>.<n>.jsonl`` of one file, for appending."""

    def __init__(self, stem: Path) -> None:
        self.stem = stem
        self.part = 0
        self._fd: int | None = None

    def write(self, row: str) -> bool:
        """Append a line, or several, whole or not at all. Returns whether a new part was begun for it."""
        begun = False
        while self._fd is None or os.fstat(self._fd).st_size >= PART_BYTES:
            if self._fd is not None:
                os.close(self._fd)
                self.part += 1
                begun = True
            path = self.stem.with_name(f"{self.stem.name}.{self.part}.jsonl")
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        line = row.encode() + b"\n"
        if os.write(self._fd, line) != len(line):
            raise OSError(f"{self.stem} takes no more rows (is the disk full?)")
        return begun
