"""A memory snapshot as the memory of its devices, with the state of their allocators when it was taken."""

from __future__ import annotations

from array import array
from collections import defaultdict
from typing import Any

import numpy as np

from ..ingest.snapshot import ALLOC, FREE, FREE_REQUESTED, SEGMENT_ALLOC, SEGMENT_FREE, History, Snapshot, stack_of
from .memory_labels import label_of
from .memory_tables import Label, Memory, of_blocks
from .replay import replay

_HELD = ("active_allocated", "active_awaiting_free", "active_pending_free")


def snapshot_memory(snapshot: Snapshot) -> list[Memory]:
    """Return the devices of a snapshot that held or did anything."""
    segments: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for segment in snapshot.segments:
        segments[int(segment.get("device", 0))].append(segment)
    devices = sorted({*segments, *(i for i, one in enumerate(snapshot.histories) if len(one))})
    none = History()
    return [
        _device(snapshot, i, segments[i], snapshot.histories[i] if i < len(snapshot.histories) else none)
        for i in devices
    ]


def _device(snapshot: Snapshot, device: int, segments: list[dict[str, Any]], history: History) -> Memory:
    action = np.frombuffer(history.action, np.int8)
    frees = FREE if (action == FREE).any() else FREE_REQUESTED  # a block is held until its free is completed
    kind = (action == ALLOC).astype(np.int8) - (action == frees).astype(np.int8)
    at_end, stacks_at_end = _held(snapshot, segments)
    lives = replay(kind, np.frombuffer(history.address, np.uint64), np.frombuffer(history.size, np.int64), at_end)
    stack = np.frombuffer(history.stack, np.int32)
    own = np.array([stacks_at_end.get(a, 0) for a in lives.address[lives.born < 0].tolist()], np.int64)
    label = np.zeros(len(lives.size), np.int32)
    label[lives.born >= 0] = stack[lives.born[lives.born >= 0]]
    label[lives.born < 0] = np.where(lives.died[lives.born < 0] == lives.n, own, 0)
    unseen = (lives.born < 0) & (label == 0)
    labels: list[Label] = [label_of(one) for one in snapshot.stacks]
    label[unseen] = len(labels)  # there before the recording began, and no stack tells whose
    labels.append(("unknown", "before", "", ""))
    history.address = array("Q")  # no longer needed, and large
    memory = of_blocks(f"cuda:{device}", lives, label, labels, np.frombuffer(history.t_ns, np.int64))
    memory.more |= _state(segments, history, action)
    return memory


def _held(snapshot: Snapshot, segments: list[dict[str, Any]]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the blocks held at the end: address to requested bytes, and to the number of their stack."""
    size, stack = {}, {}
    for _segment, address, block in _blocks(segments):
        if block.get("state") in _HELD:
            size[address] = int(block.get("requested_size", block.get("size", 0)))
            stack[address] = stack_of(snapshot, block.get("frames"))
    return size, stack


def _blocks(segments: list[dict[str, Any]]) -> Any:
    for segment in segments:
        address = int(segment.get("address", 0))
        for block in segment.get("blocks") or ():
            yield segment, int(block.get("address", address)), block
            address = int(block.get("address", address)) + int(block.get("size", 0))


def _state(segments: list[dict[str, Any]], history: History, action: np.ndarray) -> dict[str, Any]:
    """Return what the allocator's pools looked like when the snapshot was taken."""
    shared = [one for one in segments if not _private(one)]
    private = [one for one in segments if _private(one)]
    free = [int(b.get("size", 0)) for _, _, b in _blocks(shared) if b.get("state") == "inactive"]
    reserved = sum(int(one.get("total_size", 0)) for one in segments)
    state: dict[str, Any] = {
        "reserved": reserved,
        "peak_reserved": _peak_reserved(reserved, history, action),
        "held": sum(int(b.get("size", 0)) for _, _, b in _blocks(segments) if b.get("state") in _HELD),
        "free": sum(free),
        "largest_free": max(free, default=0),
        "private_reserved": sum(int(one.get("total_size", 0)) for one in private),
        "private_free": sum(int(b.get("size", 0)) for _, _, b in _blocks(private) if b.get("state") == "inactive"),
        "ooms": len(history.ooms),
        "told_held": sum(int(one["active_size"]) for one in segments)
        if all("active_size" in s for s in segments)
        else None,
    }
    if history.ooms:
        position, device_free = history.ooms[-1]
        state |= {
            "oom_asked": history.size[position],
            "oom_device_free": device_free,
            "oom_ns": history.t_ns[position],
            "oom_last": not (np.isin(action[position + 1 :], (ALLOC, FREE, SEGMENT_ALLOC, SEGMENT_FREE))).any(),
        }
    return state


def _private(segment: dict[str, Any]) -> bool:
    return tuple(segment.get("segment_pool_id") or (0, 0)) != (0, 0)


def _peak_reserved(at_end: int, history: History, action: np.ndarray) -> int:
    moves = np.flatnonzero((action == SEGMENT_ALLOC) | (action == SEGMENT_FREE))
    signed = np.where(action[moves] == SEGMENT_ALLOC, 1, -1) * np.frombuffer(history.size, np.int64)[moves]
    held = at_end - np.cumsum(signed[::-1])  # from the end back
    return max(at_end, int(held.max())) if len(held) else at_end
