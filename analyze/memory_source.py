"""Files that tell about memory and nothing else: snapshots and timelines, known by their content."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from ..ingest.load import Loaded, Problem
from ..ingest.memory_timeline import CATEGORIES, START, read_timeline
from ..ingest.text import LIMITS, Refused, TraceText
from .memory_tables import Held, Label, Memory, memory_tables
from .replay import Ints
from .snapshot_memory import snapshot_memory

_LOOK = 65_536  # in so many bytes a snapshot has named one of its parts
_PARTS = (b"device_traces", b"segments")
Read = tuple[Loaded, dict[str, pa.Table]]


def memory_source(source: str, named: bool) -> Read | None:
    """Read a memory snapshot or timeline, None when the file is neither.

    Args:
        source: Path or URI.
        named: Whether the user named this very file: then any pickle gets an answer, not only what looks like one.
    """
    try:
        text = TraceText(source, LIMITS)
    except OSError:
        return None  # the reader of traces says it better
    try:
        chunks = text.chunks()
        first = next(chunks, b"")
        if START.match(first):
            what, read = "memory_timeline", _timeline
        elif is_pickle(first):
            what, read = "memory_snapshot", snapshot_memory
            if not named and not any(part in first[:_LOOK] for part in _PARTS):
                text.close()
                return Loaded(verdict="quarantined", reason="is a pickle, but no memory snapshot", no_trace=True), {}
        else:
            text.close()
            return None
        loaded, devices, refused = Loaded(format=what), [], ""
        try:
            devices = read(chain([first], chunks))
        except Refused as refusal:
            refused = str(refusal)
        text.drain()
    except (OSError, Refused):
        text.close()
        return None
    loaded.sha256, loaded.bytes, loaded.base_ns = text.sha256, text.size, 0
    if refused or text.cut:
        loaded.verdict, loaded.reason = "quarantined", refused or "is cut short: the end of the gz is missing"
        return loaded, {}
    loaded.events = sum(one.events for one in devices)
    tables = memory_tables(int(loaded.sha256[:15], 16), devices)
    loaded.problems = [problem for row in tables["memory_peaks"].to_pylist() for problem in _doubts(row)]
    return loaded, tables


def is_pickle(head: bytes) -> bool:
    """Return whether bytes look like the start of a pickle of a dict, in any protocol."""
    return (head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05") or head[:2] in (b"(d", b"}q", b"}(")


def _timeline(chunks: Iterator[bytes]) -> list[Memory]:
    told = read_timeline(b"".join(chunks))

    def line(name: str, at: Ints) -> Ints:
        number = CATEGORIES.index(name)
        change = np.where(told.category == number, told.change, 0)
        return np.cumsum(np.concatenate(([told.before[number]], change)))[at]

    def alive(moment: int) -> list[Held]:
        sizes = told.before.copy()
        np.add.at(sizes, told.category[:moment], told.change[:moment])
        return [(Label(name), None, int(n)) for name, n in zip(CATEGORIES, sizes, strict=True) if n]

    live = np.cumsum(np.concatenate(([told.before.sum()], told.change)))
    return [Memory("recorded", np.concatenate((told.t_ns[:1], told.t_ns)), live, line, alive, CATEGORIES)]


def _doubts(row: dict[str, int | None]) -> Iterator[Problem]:
    """Say where the parts of a snapshot contradict each other."""
    if row["unmatched"]:
        yield Problem(
            "memory_unmatched",
            row["unmatched"],
            f"{row['unmatched']:,} allocations or frees of {row['device']} contradict the others; they are left out.",
        )
    told, held, peak, reserved = row["told_held"], row["held"], row["peak"], row["peak_reserved"]
    if told is not None and told != held:
        yield Problem(
            "memory_does_not_reconcile",
            1,
            f"The segments of {row['device']} tell {told:,} bytes in use, their blocks sum to {held:,}: "
            "the snapshot's totals do not reconcile, the blocks are believed.",
        )
    if reserved is not None and peak is not None and peak > reserved:
        yield Problem(
            "memory_exceeds_reserved",
            1,
            f"The history of {row['device']} has {peak:,} bytes alive at once, more than the {reserved:,} ever reserved: "
            "the history and the segments do not belong together.",
        )
