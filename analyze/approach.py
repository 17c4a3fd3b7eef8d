"""What a rank did on its way to each collective: its ledger since the previous one of the same group had ended.

Before the first one the way begins with the first step. Whoever arrives last has more of something than the others on the way there. That is the cause of their waiting.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..ingest.schema import APPROACHES, LEDGER_CATEGORIES
from .sweep import Elapsed, Int, Segments


class Approaches:
    """A question to the capture's sweep, see ``sweep.Elapsed``.

    Args:
        collectives: Collectives with ``event_id``, ``pg``, ``start_ns`` and ``end_ns``, ordered by start.
        first_ns: When the first step began.
    """

    def __init__(self, collectives: pa.Table, first_ns: int) -> None:
        start, end = collectives["start_ns"].to_numpy(), collectives["end_ns"].to_numpy()
        group = collectives["pg"].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        begin = _previous_end(group, start, end, first_ns)
        known = begin <= start
        self._event = collectives["event_id"].to_numpy()[known]
        self._begin, self._end = begin[known], start[known]
        points = np.concatenate([self._begin, self._end])
        self._lanes = [
            Elapsed(points, lambda masks, lane=lane: (masks & -masks) == 1 << lane)  # type: ignore[misc]
            for lane in range(len(LEDGER_CATEGORIES) - 1)
        ]

    def add(self, segments: Segments) -> None:
        """Advance over some segments, in the order in which the sweep yields them."""
        if len(self._event):
            for lane in self._lanes:
                lane.add(segments)

    def table(self, capture_id: int, shown: list[str]) -> pa.Table:
        """Return the rows: a row a collective and category that the capture can show; they sum to the whole way."""
        parts = [lane.between(self._begin, self._end) for lane in self._lanes]
        parts.append(self._end - self._begin - np.sum(parts, axis=0))
        rows = [
            (np.full(len(ns), capture_id), self._event, np.full(len(ns), name), ns)
            for name, ns in zip(LEDGER_CATEGORIES, parts, strict=True)
            if name in shown
        ]
        return pa.table([np.concatenate(column) for column in zip(*rows, strict=True)], schema=APPROACHES)


def _previous_end(group: Int, start: Int, end: Int, otherwise: int) -> Int:
    """Return for each collective the latest end in its group that is no later than its start."""
    found = np.full(len(start), otherwise)
    for one in np.unique(group):
        mine = np.flatnonzero(group == one)
        ends = np.sort(end[mine])
        place = np.searchsorted(ends, start[mine], "right") - 1
        found[mine] = np.where(place >= 0, ends[place], otherwise)
    return found
