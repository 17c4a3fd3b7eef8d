"""Pieces of text -> rows of ``raw_rows``, in order: DuckDB reads several at once, salvage what it refuses."""

from __future__ import annotations

import os
import queue
import threading
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

import duckdb

from .errors import StepscopeError
from .header import EVENT, Document
from .salvage import Interleaved, scan
from .slices import find_close
from .text import Limits, Refused

_BATCH = 4  # pieces given to DuckDB at once, and kept ready for it
_WS = b" \t\r\n"
_BAD_DATA = (duckdb.DataError, duckdb.ProgrammingError)
_INSERT = """
INSERT INTO raw_rows
SELECT ph, cat, name, pid, tid, (ts * 1000)::BIGINT, (dur * 1000)::BIGINT, args
FROM read_json(
    $files, format = 'array', maximum_object_size = {longest}, columns = {{
        ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR',
        ts: 'DECIMAL(20,3)', dur: 'DECIMAL(20,3)', args: 'JSON'
    }}
)
"""
T = TypeVar("T")


class Intake:
    """Takes the text of one source piece by piece.

    ``documents`` holds what stands around the arrays; ``repaired`` and ``dropped`` count events by what was
    wrong with them.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, folder: str, limits: Limits) -> None:
        self.documents = [Document()]
        self.inside = False
        self.trailing = 0  # bytes after the last document that begin no other
        self.repaired: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.events_repaired = 0
        self._con, self._folder, self._limits = con, folder, limits
        self._carry = b""

    def take(self, batch: list[tuple[bytes, bool]]) -> None:
        """Take the next (piece, is_last) pairs.

        Raises:
            Refused: The text is no trace or passes a limit.
            Interleaved: Two documents were written into each other.
        """
        if not self.inside:
            (first, final), batch = batch[0], batch[1:]
            data = self._outside(first)
            if self.inside and not final:
                batch = [(data, False), *batch]
            else:
                self._feed(data, final)
            if not batch:
                return
        if not self.inside or self._carry or not self._take_at_once(batch):
            for piece, final in batch:
                self._feed(piece, final)

    def _take_at_once(self, batch: list[tuple[bytes, bool]]) -> bool:
        """Try the common case: whole events, the last piece perhaps with the end of the document."""
        bodies, tail = [piece for piece, _ in batch], None
        if batch[-1][1]:
            close = find_close(bodies[-1], self.documents[-1].bare)
            if close is None:
                return False
            bodies[-1], tail = bodies[-1][:close], bodies[-1][close + 1 :]
        if not self._insert(bodies):
            return False
        if tail is not None:
            self._close()
            self._feed(tail, True)  # the rest of the document, perhaps with another array
        return True

    def _feed(self, data: bytes, final: bool) -> None:
        """Take one piece with whatever it holds: events, an array's end, text outside, another array."""
        data, self._carry = self._carry + data, b""
        while data:
            if not self.inside:
                data = self._outside(data)
                continue
            if self._take_at_once([(data, final)]):
                return
            found = scan(data, final, self.documents[-1].bare)
            self._insert_salvaged(found.clean)
            self.repaired += found.repaired
            self.dropped += found.dropped
            self.events_repaired += found.events_repaired
            if not found.closed:
                self._carry = found.rest
                if len(self._carry) > self._limits.event_bytes:
                    raise Refused(f"holds an event longer than {self._limits.event_bytes:,} bytes, the limit")
                return
            self._close()
            data = found.rest

    def _close(self) -> None:
        self.documents[-1].close_array()
        self.inside = False

    def _outside(self, data: bytes) -> bytes:
        """Take text outside of arrays; return what comes after it."""
        if self.documents[-1].complete:
            data = data.lstrip(_WS)
            if data[:1] not in (b"{", b"["):
                if EVENT.search(data):
                    raise Interleaved
                self.trailing += len(data)
                return b""
            if EVENT.match(data):
                raise Interleaved
            self.documents.append(Document())
        document = self.documents[-1]
        at = document.feed(data)
        if document.alien:
            raise Refused("is not JSON")
        if document.holds_events:
            raise Interleaved
        if len(document.text) > self._limits.header_bytes:
            raise Refused(f"holds no events in {self._limits.header_bytes >> 20} MiB of text")
        if at is None:
            return b""
        self.inside = not document.complete
        return data[at:]

    def _insert_salvaged(self, events: list[bytes]) -> None:
        """Insert events read one by one; should DuckDB still refuse some, halve until they are found."""
        if not events or self._insert([b",".join(events)]):
            return
        if len(events) == 1:
            self.dropped["unreadable"] += 1
            return
        half = len(events) // 2
        self._insert_salvaged(events[:half])
        self._insert_salvaged(events[half:])

    def _insert(self, bodies: list[bytes]) -> bool:
        """Insert pieces that should be events and commas; on failure nothing of them is kept."""
        files: list[str] = []
        for body in bodies:
            if end := _without_comma(body):
                files.append(os.path.join(self._folder, f"{len(files):03d}.json"))
                _write(files[-1], (b"[", memoryview(body)[:end], b"]"))
        if not files:
            return True
        longest = max(1 << 20, *(len(body) + 2 for body in bodies))
        try:
            self._con.execute(_INSERT.format(longest=longest), {"files": files})
        except _BAD_DATA:
            return False
        return True


def _write(path: str, parts: Iterable[bytes | memoryview]) -> None:
    try:
        with open(path, "wb") as file:
            file.writelines(parts)
    except OSError as error:
        raise StepscopeError(
            f"{path}, a temporary file, cannot be written ({error.strerror}). Free some space or set TMPDIR."
        ) from error


def _without_comma(body: bytes) -> int:
    """Return the length of ``body`` without the blanks and the one comma at its end, making no copy."""
    end = len(body)
    while end and body[end - 1] in _WS:
        end -= 1
    if end and body[end - 1] == 0x2C:
        end -= 1
    return end


def batches(items: Iterator[T]) -> Generator[list[T]]:
    """Run ``items`` in a thread, some ahead, and yield what is ready in lists of one or more.

    Reading, decompressing and DuckDB release the interpreter, so they overlap.
    """
    ready: queue.Queue[T | BaseException | None] = queue.Queue(_BATCH)
    stop = threading.Event()

    def produce() -> None:
        end: BaseException | None = None
        try:
            for item in items:
                ready.put(item)
                if stop.is_set():
                    return
        except BaseException as error:  # handed to the consumer, whatever it is
            end = error
        ready.put(end)

    producer = threading.Thread(target=produce, name="stepscope-reader", daemon=True)
    producer.start()
    try:
        while True:
            batch = [ready.get()]
            while len(batch) < _BATCH and not ready.empty():
                batch.append(ready.get())
            end = next((i for i, item in enumerate(batch) if item is None or isinstance(item, BaseException)), None)
            if batch[:end]:
                yield batch[:end]  # type: ignore[misc]
            if end is not None:
                if batch[end] is not None:
                    raise batch[end]  # type: ignore[misc]
                return
    finally:
        stop.set()
        while producer.is_alive():  # it may wait for room
            while not ready.empty():
                ready.get()
            producer.join(0.01)
