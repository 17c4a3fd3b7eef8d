"""Nesting of host events: who encloses whom on a thread, and how much of an operator's time is its own.

The input is streamed in the order (thread, start, longest first), so memory holds one batch and the open events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

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


# An event that later ones may lie in: (end, event, operator, scope, communicates, in_loader, role), where operator, scope
# and loader count the event itself. Plain tuples: a hundred thousand of them are made for a second of training.
_Open = tuple[int, int, int, int, bool, bool, int]
_NOTHING: _Open = (np.iinfo(np.int64).max, _NONE, _NONE, _NONE, False, False, 0)  # encloses everything


def nest(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield rows of NESTING for each batch of host events, and rows of INNER for the operators that ended.

    Args:
        batches: Columns ``thread`` (int64 code), ``event_id``, ``start_ns``, ``end_ns`` and ``role`` (bits), in the
            order of ``sql/nest_order.sql``.

    An event is enclosed by another on its thread when its whole time is. Events that overlap without enclosing
    (asynchronous spans) are siblings.
    """
    stack: list[_Open] = []
    inner: dict[int, int] = {}  # of open operators
    current = None
    for batch in batches:
        rows: list[tuple[int, int, int, bool, bool]] = []
        done: list[tuple[int, int]] = []
        for thread, event, start, end, role in zip(
            *(batch.column(name).to_numpy().tolist() for name in _INPUT), strict=True
        ):
            if thread != current:
                stack.clear()
                done += inner.items()
                inner.clear()
                current = thread
            while stack and stack[-1][0] <= start:
                ended = stack.pop()[1]
                if ended in inner:
                    done.append((ended, inner.pop(ended)))
            around = stack[-1] if stack else _NOTHING
            if around[0] < end:
                around = next((one for one in reversed(stack) if one[0] >= end), _NOTHING)
            _, parent, operator, scope, communicates, loader, outer_role = around
            rows.append((parent, operator, scope, communicates, loader))
            if operator != _NONE and (role & _OPERATOR or (role & _RUNTIME and not outer_role & _RUNTIME)):
                inner[operator] = inner.get(operator, 0) + end - start
            if role & _OPERATOR:
                operator = event
            if role & (_OPERATOR | _ANNOTATION):
                scope, communicates = event, bool(role & _COMMUNICATES)
            stack.append((end, event, operator, scope, communicates, loader or bool(role & _LOADER), role))
        yield _nesting(batch.column("event_id"), rows), _inner(done)
    yield _nesting(pa.array([], pa.int64()), []), _inner(list(inner.items()))


def _nesting(event_ids: pa.Array, rows: list[tuple[int, int, int, bool, bool]]) -> pa.RecordBatch:
    found = np.array(rows, np.int64).reshape(-1, 5)
    ids = [pa.array(column, mask=column == _NONE) for column in found.T[:3]]
    facts = [pa.array(column == 1) for column in found.T[3:]]
    return pa.RecordBatch.from_arrays([event_ids, *ids, *facts], schema=NESTING)


def _inner(done: list[tuple[int, int]]) -> pa.RecordBatch:
    found = np.array(done, np.int64).reshape(-1, 2)
    return pa.RecordBatch.from_arrays([pa.array(column) for column in found.T], schema=INNER)
