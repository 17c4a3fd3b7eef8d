"""Nesting of host events: who encloses whom on a thread, and how much of an operator's time is its own.

The input is streamed in the order (thread, start, longest first), so memory holds one batch and the open events.
Within a batch every event points to the one before it, and pointers climb until they meet an event that encloses
theirs: what is passed over has ended, so a pointer may take the other's way in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

NESTING = pa.schema(
    {
        "event_id": pa.int64(),
        "parent_id": pa.int64(),  # innermost enclosing host event
        "operator_id": pa.int64(),  # innermost enclosing operator
        "scope_id": pa.int64(),  # innermost enclosing operator or annotation
        "communicates": pa.bool_(),  # whether that scope launches collectives
        "in_loader": pa.bool_(),  # inside a loader's next()
    }
)
INNER = pa.schema(
    {
        "event_id": pa.int64(),  # an operator
        "inner_ns": pa.int64(),  # time of the operators and runtime calls right inside it
    }
)

_INPUT = ("thread", "event_id", "start_ns", "end_ns", "role")
_OPERATOR, _ANNOTATION, _LOADER, _COMMUNICATES, _RUNTIME = 1, 2, 4, 8, 16  # bits of a role
_NONE = -1

Ints = NDArray[np.int64]


def nest(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield rows of NESTING for each batch of host events, and rows of INNER for the operators that ended.

    Args:
        batches: Columns ``thread`` (int64 code), ``event_id``, ``start_ns``, ``end_ns`` and ``role`` (bits), in the
            order of ``sql/nest_order.sql``.

    An event is enclosed by another on its thread when its whole time is. Events that overlap without enclosing
    (asynchronous spans) are siblings.
    """
    held = np.zeros((len(_INPUT) + 1, 0), np.int64)  # events that later ones may lie in, with their inner time so far
    for batch in batches:
        if not len(batch):
            continue
        columns = [batch.column(name).to_numpy() for name in _INPUT]
        rows = np.concatenate([held, np.stack([*columns, np.zeros(len(batch), np.int64)])], axis=1)
        thread, event, start, end, _, inner = rows
        nesting = _nest(rows, held.shape[1])
        open_ = (thread == thread[-1]) & (end > start[-1])
        yield nesting, _inner(event[~open_], inner[~open_])
        held = rows[:, open_]
    yield pa.RecordBatch.from_pylist([], NESTING), _inner(held[1], held[5])


def _nest(rows: Ints, first: int) -> pa.RecordBatch:
    """Return NESTING of the rows from ``first`` on, and add their time to the inner time of their operators."""
    thread, event, start, end, role, inner = rows
    parent = _enclosing(thread, start, end)
    operator = _nearest(parent, role & _OPERATOR)
    scope = _nearest(parent, role & (_OPERATOR | _ANNOTATION))
    loader = _nearest(parent, role & _LOADER)
    communicates = (scope != _NONE) & (role[scope] & _COMMUNICATES != 0)

    in_call = (parent != _NONE) & (role[parent] & _RUNTIME != 0)
    counts = (operator != _NONE) & ((role & _OPERATOR != 0) | ((role & _RUNTIME != 0) & ~in_call))
    counts[:first] = False
    np.add.at(inner, operator[counts], (end - start)[counts])

    ids = [pa.array(event[at], mask=at == _NONE) for at in (parent, operator, scope)]
    found = pa.RecordBatch.from_arrays(
        [pa.array(event), *ids, pa.array(communicates), pa.array(loader != _NONE)], schema=NESTING
    )
    return found.slice(first)


def _enclosing(thread: Ints, start: Ints, end: Ints) -> Ints:
    """Return the place of the innermost event around each: the last one before it that is not over before its end."""
    before = np.arange(-1, len(thread) - 1)
    before[1:][thread[1:] != thread[:-1]] = _NONE
    return _climb(before, lambda one, around: (end[around] >= end[one]) & (end[around] > start[one]))


def _nearest(parent: Ints, wanted: Ints) -> Ints:
    """Return the place of the innermost event of a kind around each."""
    return _climb(parent.copy(), lambda _, around: wanted[around] != 0)


def _climb(at: Ints, reached: Callable[[Ints, Ints], NDArray[np.bool_]]) -> Ints:
    """Move every pointer on to where its target points, until it has ``reached`` what it looks for or points to nothing."""
    moving = np.flatnonzero(at != _NONE)
    while len(moving):
        moving = moving[~reached(moving, at[moving])]
        at[moving] = at[at[moving]]
        moving = moving[at[moving] != _NONE]
    return at


def _inner(event: Ints, inner: Ints) -> pa.RecordBatch:
    some = inner > 0
    return pa.RecordBatch.from_arrays([pa.array(event[some]), pa.array(inner[some])], schema=INNER)
