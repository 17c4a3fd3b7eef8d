"""PyTorch's memory snapshots (``torch.cuda.memory._dump_snapshot``): the allocator's history and its segments.

A snapshot tells what the allocator held when it was taken (``segments``) and what it did in the window before
(``device_traces``), each event with the stack that caused it. Events are handed on as they are read, equal
stacks are one, so a snapshot of 1 GB needs a fraction of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from .pickle_stream import PlainPickle
from .text import Refused

ALLOC, FREE_REQUESTED, FREE, SEGMENT_ALLOC, SEGMENT_FREE, OOM, OTHER = range(7)
ACTIONS = {
    "alloc": ALLOC,
    "free_requested": FREE_REQUESTED,
    "free_completed": FREE,
    "segment_alloc": SEGMENT_ALLOC,
    "segment_map": SEGMENT_ALLOC,
    "segment_free": SEGMENT_FREE,
    "segment_unmap": SEGMENT_FREE,
    "oom": OOM,
}
_FRAMES_HELD = 1 << 18
_UINT64 = 2**64 - 1

Stack = tuple[str, ...]  # "function (file:line)", the innermost first


class Listener(Protocol):
    """Takes what one device's allocator did, event by event, in order."""

    def note(self, action: int, address: int, size: int, t_ns: int, stack: int, device_free: int | None) -> None:
        """Take an event. ``stack`` is an index into ``Snapshot.stacks``; ``device_free`` is told by ``OOM``."""


L = TypeVar("L", bound=Listener)


@dataclass
class Snapshot(Generic[L]):
    """A snapshot: segments as written, who listened to each device, and the stacks of both (0 is the empty one)."""

    segments: list[dict[str, Any]]
    histories: list[L]
    stacks: list[Stack]
    of_stack: dict[Stack, int]


def read_snapshot(chunks: Iterator[bytes], listener: Callable[[], L]) -> Snapshot[L]:
    """Read a snapshot's pickle.

    Args:
        chunks: Its bytes.
        listener: Makes the listener to a device.

    Raises:
        Refused: It is no pickle of plain data, or no memory snapshot; the message says which.
    """
    stacks = _Stacks()
    histories: dict[int, tuple[list[Any], L]] = {}

    def take(target: list[Any], events: list[Any]) -> bool:
        known = histories.get(id(target))
        if known is None:
            known = histories[id(target)] = target, listener()  # the list is held, so that its id stays its own
        for event in events:
            _tell(known[1], event, stacks)
        return True

    root = PlainPickle(chunks, take).load()
    if not isinstance(root, dict) or not isinstance(root.get("segments"), list):
        raise Refused("is a pickle, but no PyTorch memory snapshot")
    traces = root.get("device_traces") or []
    if not isinstance(traces, list) or not all(isinstance(one, dict) for one in root["segments"]):
        raise Refused("is a memory snapshot of a shape that is not known")
    return Snapshot(
        root["segments"],
        [histories[id(one)][1] if id(one) in histories else listener() for one in traces],
        stacks.stacks,
        stacks.numbers,
    )


def _tell(listener: Listener, event: dict[str, Any], stacks: _Stacks) -> None:
    free = event.get("device_free")
    try:
        listener.note(
            ACTIONS.get(event["action"], OTHER),
            event.get("addr", 0) & _UINT64,
            event.get("size", 0),
            event.get("time_us", 0) * 1000,
            stacks.number(event.get("frames") or ()),
            free if isinstance(free, int) else None,
        )
    except (TypeError, AttributeError, OverflowError) as error:
        raise Refused(f"is a memory snapshot with a damaged event ({error})") from error


class _Stacks:
    """Numbers equal stacks the same. A frame is a dict that many events share, known again by its identity."""

    def __init__(self) -> None:
        self.stacks: list[Stack] = [()]
        self.numbers: dict[Stack, int] = {(): 0}
        self._of_lines: dict[tuple[int, ...], int] = {(): 0}
        self._lines: dict[str, int] = {}
        self._texts: list[str] = []
        self._seen: dict[int, tuple[Any, int]] = {}  # the frame is held, so that its id stays its own

    def number(self, frames: Any) -> int:
        seen = self._seen
        lines = []
        for frame in frames:
            known = seen.get(id(frame))
            if known is None:
                known = self._frame(frame)
            lines.append(known[1])
        key = tuple(lines)
        found = self._of_lines.get(key)
        if found is None:
            stack = tuple(self._texts[line] for line in key)
            found = self.numbers.setdefault(stack, len(self.stacks))
            if found == len(self.stacks):
                self.stacks.append(stack)
            self._of_lines[key] = found
        return found

    def _frame(self, frame: dict[str, Any]) -> tuple[Any, int]:
        text = f"{frame.get('name', '?')} ({frame.get('filename', '?')}:{frame.get('line', 0)})"
        line = self._lines.setdefault(text, len(self._lines))
        if line == len(self._texts):
            self._texts.append(text)
        if len(self._seen) >= _FRAMES_HELD:
            self._seen.clear()
        self._seen[id(frame)] = (frame, line)
        return self._seen[id(frame)]


def stack_of(snapshot: Snapshot[Any], frames: Any) -> int:
    """Return the number of a block's stack, which may be one that no event has."""
    told = frames if isinstance(frames, list) else []
    stack = tuple(
        f"{one.get('name', '?')} ({one.get('filename', '?')}:{one.get('line', 0)})"
        for one in told
        if isinstance(one, dict)
    )
    number = snapshot.of_stack.setdefault(stack, len(snapshot.stacks))
    if number == len(snapshot.stacks):
        snapshot.stacks.append(stack)
    return number
