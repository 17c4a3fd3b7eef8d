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


def nest(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield a row of NESTING for each host event.

    Args:
        batches: Columns ``thread`` (int64 code), ``event_id``, ``start_ns``, ``end_ns`` and ``role`` (0 other,
            1 annotation, 2 operator, 3 loader span), ordered by thread, start, end descending, event_id.

    An event is enclosed by another on its thread when its whole time is. Events that overlap without enclosing
    (asynchronous spans) are siblings.
    """
    # The stack holds the open events: (end, id, innermost operator, innermost scope, in a loader), itself counted.
    stack: list[tuple[int, int, int | None, int | None, bool]] = []
    current: int | None = None
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("thread", "event_id", "start_ns", "end_ns", "role")]
        rows: list[tuple[int | None, int | None, int | None, bool]] = []
        for thread, event, start, end, role in zip(*columns, strict=True):
            if thread != current:
                stack.clear()
                current = thread
            while stack and stack[-1][0] <= start:
                stack.pop()
            around = stack[-1] if stack else None
            if around is not None and around[0] < end:
                around = next((one for one in reversed(stack) if one[0] >= end), None)
            if around is None:
                parent = operator = scope = None
                loader = False
            else:
                _, parent, operator, scope, loader = around
            rows.append((parent, operator, scope, loader))
            stack.append(
                (
                    end,
                    event,
                    event if role == 2 else operator,
                    event if role in (1, 2) else scope,
                    loader or role == 3,
                )
            )
        if rows:
            parents, operators, scopes, loaders = zip(*rows, strict=True)
            arrays = [
                batch.column("event_id"),
                pa.array(parents, pa.int64()),
                pa.array(operators, pa.int64()),
                pa.array(scopes, pa.int64()),
                pa.array(np.fromiter(loaders, bool, len(loaders))),
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=NESTING)
