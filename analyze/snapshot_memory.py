"""A memory snapshot as the memory of its devices, with the state of their allocators when it was taken."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..ingest.snapshot import (
    ALLOC,
    FREE,
    FREE_REQUESTED,
    OOM,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    Snapshot,
    read_snapshot,
    stack_of,
)
from .memory_labels import label_of
from .memory_tables import BEFORE, Memory, of_blocks
from .replay import Player, Replay

_HELD = ("active_allocated", "active_awaiting_free", "active_pending_free")
_DOES = (ALLOC, FREE, SEGMENT_ALLOC, SEGMENT_FREE)
Segments = list[dict[str, Any]]


class History:
    """What one device's allocator did, taken as it is read: the lives of blocks, and what became of the segments."""

    def __init__(self) -> None:
        self.t_ns = array("q")  # of each moment: before the first event, and after each
        self.moves = array("q")  # bytes of segments that came, and that went (negative)
        self.ooms = 0
        self.oom: dict[str, Any] = {}  # the last one
        self._blocks = Player()
        self._requested: Player | None = Player()  # until a free is completed: some recordings tell requests only

    def note(self, action: int, address: int, size: int, t_ns: int, stack: int, device_free: int | None) -> None:
        """Take an event."""
        if not self.t_ns:
            self.t_ns.append(t_ns)
        i = len(self.t_ns) - 1
        self.t_ns.append(t_ns)
        if action in _DOES and self.oom:
            self.oom["oom_last"] = False
        if action == ALLOC:
            self._blocks.alloc(i, address, size, stack)
            if self._requested is not None:
                self._requested.alloc(i, address, size, stack)
        elif action == FREE:
            self._blocks.free(i, address, size)
            self._requested = None
        elif action == FREE_REQUESTED and self._requested is not None:
            self._requested.free(i, address, size)
        elif action in (SEGMENT_ALLOC, SEGMENT_FREE):
            self.moves.append(size if action == SEGMENT_ALLOC else -size)
        elif action == OOM:
            self.ooms += 1
            self.oom = {"oom_asked": size, "oom_ns": t_ns, "oom_device_free": device_free, "oom_last": True}

    def lives(self, at_end: dict[int, tuple[int, int]]) -> Replay:
        """Return the lives of the blocks; one is held until its free is completed."""
        player = self._blocks if self._requested is None else self._requested
        self._requested = self._blocks = Player()
        return player.lives(max(len(self.t_ns) - 1, 0), at_end)


def snapshot_memory(chunks: Iterator[bytes]) -> list[Memory]:
    """Return the devices of a snapshot that held or did anything.

    Raises:
        Refused: It is none; the message says why.
    """
    snapshot = read_snapshot(chunks, History)
    segments: dict[int, Segments] = defaultdict(list)
    for segment in snapshot.segments:
        segments[int(segment.get("device", 0))].append(segment)
    devices = sorted({*segments, *(i for i, one in enumerate(snapshot.histories) if one.t_ns)})
    return [
        _device(snapshot, i, segments[i], snapshot.histories[i] if i < len(snapshot.histories) else History())
        for i in devices
    ]


def _device(snapshot: Snapshot[History], device: int, segments: Segments, history: History) -> Memory:
    lives = history.lives(_held(snapshot, segments))
    labels = [label_of(one) for one in snapshot.stacks]
    unseen = (lives.born < 0) & (lives.tag <= 0)  # there before the recording began, and no stack tells whose
    label = np.where(unseen, len(labels), lives.tag)
    memory = of_blocks(f"cuda:{device}", lives, label, [*labels, BEFORE], np.frombuffer(history.t_ns, np.int64))
    memory.more |= _state(segments, history)
    return memory


def _held(snapshot: Snapshot[History], segments: Segments) -> dict[int, tuple[int, int]]:
    """Return the blocks held at the end: address to requested bytes, and to the number of their stack."""
    return {
        address: (int(block.get("requested_size", block.get("size", 0))), stack_of(snapshot, block.get("frames")))
        for address, block in _blocks(segments)
        if block.get("state") in _HELD
    }


def _blocks(segments: Segments) -> Iterator[tuple[int, dict[str, Any]]]:
    for segment in segments:
        address = int(segment.get("address", 0))
        for block in segment.get("blocks") or ():
            yield int(block.get("address", address)), block
            address = int(block.get("address", address)) + int(block.get("size", 0))


def _state(segments: Segments, history: History) -> dict[str, Any]:
    """Return what the allocator's pools looked like when the snapshot was taken."""
    shared = [one for one in segments if not _private(one)]
    private = [one for one in segments if _private(one)]
    free = [int(b.get("size", 0)) for _, b in _blocks(shared) if b.get("state") == "inactive"]
    reserved = sum(int(one.get("total_size", 0)) for one in segments)
    return {
        "reserved": reserved,
        "peak_reserved": _peak_reserved(reserved, history),
        "held": sum(int(b.get("size", 0)) for _, b in _blocks(segments) if b.get("state") in _HELD),
        "free": sum(free),
        "largest_free": max(free, default=0),
        "private_reserved": sum(int(one.get("total_size", 0)) for one in private),
        "private_free": sum(int(b.get("size", 0)) for _, b in _blocks(private) if b.get("state") == "inactive"),
        "told_held": sum(int(one["active_size"]) for one in segments)
        if all("active_size" in s for s in segments)
        else None,
        "ooms": history.ooms,
        **history.oom,
    }


def _private(segment: dict[str, Any]) -> bool:
    return tuple(segment.get("segment_pool_id") or (0, 0)) != (0, 0)


def _peak_reserved(at_end: int, history: History) -> int:
    held = at_end - np.cumsum(np.frombuffer(history.moves, np.int64)[::-1])  # from the end back
    return max(at_end, int(held.max())) if len(held) else at_end
