"""Nesting of host events: who encloses whom on a thread.

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
        "in_loader": pa.bool_(),  # inside a loader's next()
    }
)

_INPUT = ("thread", "event_id", "start_ns", "end_ns", "role")
_ANNOTATION, _OPERATOR, _LOADER = 1, 2, 3  # roles
_NONE = -1
_NOTHING = (np.iinfo(np.int64).max, _NONE, _NONE, _NONE, False)  # encloses everything


def nest(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield a row of NESTING for each host event.

    Args:
        batches: Columns ``thread`` (int64 code), ``event_id``, ``start_ns``, ``end_ns`` and ``role`` (0 other,
            1 annotation, 2 operator, 3 loader span), ordered by thread, start, end descending, event_id.

    An event is enclosed by another on its thread when its whole time is. Events that overlap without enclosing
    (asynchronous spans) are siblings.
    """
    # The stack holds the open events: (end, id, innermost operator, innermost scope, in a loader), itself counted.
    stack: list[tuple[int, int, int, int, bool]] = []
    current = None
    for batch in batches:
        columns = [batch.column(name).to_numpy().tolist() for name in _INPUT]
        rows = []
        for thread, event, start, end, role in zip(*columns, strict=True):
            if thread != current:
                stack.clear()
                current = thread
            while stack and stack[-1][0] <= start:
                stack.pop()
            around = stack[-1] if stack else _NOTHING
            if around[0] < end:
                around = next((one for one in reversed(stack) if one[0] >= end), _NOTHING)
            _, parent, operator, scope, loader = around
            rows.append((parent, operator, scope, loader))
            if role == _OPERATOR:
                operator = scope = event
            elif role == _ANNOTATION:
                scope = event
            stack.append((end, event, operator, scope, loader or role == _LOADER))
        yield _as_batch(batch.column("event_id"), rows)


def _as_batch(event_ids: pa.Array, rows: list[tuple[int, int, int, bool]]) -> pa.RecordBatch:
    found = np.array(rows, np.int64).reshape(-1, 4)
    ids = [pa.array(column, mask=column == _NONE) for column in found.T[:3]]
    return pa.RecordBatch.from_arrays([event_ids, *ids, pa.array(found[:, 3] == 1)], schema=NESTING)
