"""Which host span stands around a moment: the innermost one and the innermost module, and the phase of training.

Spans and moments come as one stream in the order (thread, start, longest first), so memory holds one batch and the
spans that are open at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
_COLUMNS = ("thread", "start_ns", "end_ns", "event_id", "role")
_OPERATOR = 1  # role of a span that begins a phase only where nothing around it does; higher ones always do
_MODULE = 5  # role of a span that begins no phase and tells the module
NONE = -1


class Around(NamedTuple):
    """Of each moment, in the order of ``event_id``: events of the innermost span and module (or ``NONE``), the phase."""

    event_id: Ints
    span: Ints
    module: Ints
    phase: Ints


def around(batches: Iterable[pa.RecordBatch]) -> Around:
    """Find what is around each moment.

    Args:
        batches: Columns ``thread`` (a code), ``start_ns``, ``end_ns``, ``event_id``, ``role``: ``NONE`` for a moment; of a
            span the phase it begins: 0 for none, 1 if no span around it begins another, higher always; 5 for a module.
    """
    found: list[Around] = []
    pending = np.empty((len(_COLUMNS), 0), np.int64)
    for batch in batches:
        columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in _COLUMNS]
        rows = np.concatenate((pending, np.array(columns, np.int64)), axis=1)
        if not rows.size:
            continue
        found.append(_around(*rows))
        thread, start, end, _, role = rows
        pending = rows[:, (thread == thread[-1]) & (end > start[-1]) & (role != NONE)]
    every = [np.concatenate(column) for column in zip(*found, strict=True)] if found else [pending[0]] * 4
    order = np.argsort(every[0])
    return Around(*(column[order] for column in every))


def _around(thread: Ints, start: Ints, end: Ints, event_id: Ints, role: Ints) -> Around:
    moments = np.flatnonzero(role == NONE)

    def innermost(chosen: npt.NDArray[np.bool_]) -> Ints:
        """Return the row of the innermost chosen span around each moment, ``NONE`` where there is none."""
        spans = np.flatnonzero(chosen)
        at = last_above(end[spans], np.searchsorted(spans, moments) - 1, start[moments])
        row = np.append(spans, NONE)[at]  # at the end, where ``NONE`` leads
        return np.where((row != NONE) & (thread[row] == thread[moments]), row, NONE)

    strong, operator = innermost((role > _OPERATOR) & (role < _MODULE)), innermost(role == _OPERATOR)
    phase = np.where(strong != NONE, role[strong], np.where(operator != NONE, _OPERATOR, 0))
    span, module = (
        np.where(row != NONE, event_id[row], NONE)
        for row in (innermost((role != NONE) & (role < _MODULE)), innermost(role == _MODULE))
    )
    return Around(event_id[moments], span, module, phase)


def last_above(values: Ints, upto: Ints, bound: Ints) -> Ints:
    """Return for each query the last position not after ``upto`` with a value above ``bound``, -1 where there is none.

    By doubling: ``highest[i]`` covers the 2^k values that end at i; what holds nothing above the bound is stepped over.
    """
    highest = [np.append(np.iinfo(np.int64).max, values)]  # a value before all others ends every search
    width = 1
    while 2 * width <= len(values):
        wide = highest[-1].copy()
        np.maximum(wide[width:], wide[:-width], out=wide[width:])
        highest.append(wide)
        width *= 2
    at = upto + 1
    for wide in reversed(highest):
        at = np.where(wide[at] <= bound, np.maximum(at - width, 0), at)
        width //= 2
    return at - 1
