"""How each device spent the capture, for all work and for work whose launch is in the trace."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..ingest.capture import Capture, sql
from ..ingest.schema import DEVICE_TIME
from .lanes import intervals
from .sweep import Segments, Totals, sweep

COMPUTE, COMM, COPY, UNCLASSIFIED = 1, 2, 4, 8
WORK = COMPUTE | COMM | COPY | UNCLASSIFIED
POLICIES = {"all": 0, "linked": 4}  # how far the policy's lanes are shifted in ``device_lanes.sql``


def device_time(capture: Capture) -> pa.Table:
    """Return the rows of ``device_time``; none when the capture holds no device work."""
    devices = capture.con.execute(
        "select distinct device from events where kind in ('kernel', 'copy', 'memset') order by all"
    ).fetchall()
    rows = [row for (device,) in devices for row in _of_device(capture, device)]
    return pa.Table.from_pylist(rows, schema=DEVICE_TIME)


def _of_device(capture: Capture, device: int | None) -> list[dict[str, object]]:
    everything = Totals(np.array([np.iinfo(np.int64).min]), np.array([np.iinfo(np.int64).max]))
    spans: dict[str, tuple[int | None, int | None]] = dict.fromkeys(
        POLICIES, (None, None)
    )  # first start and last end of each policy's work
    query = sql("device_lanes", __package__)
    for segments in sweep(intervals(capture.con, query, {"device": device}), 8):
        everything.add(segments)
        for policy, shift in POLICIES.items():
            spans[policy] = _extend(spans[policy], segments, WORK << shift)
    return [
        {
            "capture_id": capture.capture_id,
            "device": device,
            "policy": policy,
            **_split(everything, shift, *spans[policy]),
        }
        for policy, shift in POLICIES.items()
        if spans[policy][0] is not None
    ]


def _extend(span: tuple[int | None, int | None], segments: Segments, lanes: int) -> tuple[int | None, int | None]:
    active = np.flatnonzero(segments.masks & lanes)
    if not len(active):
        return span
    first = span[0] if span[0] is not None else int(segments.edges[active[0]])
    return first, int(segments.edges[active[-1] + 1])


def _split(totals: Totals, shift: int, first: int | None, last: int | None) -> dict[str, int]:
    assert first is not None
    assert last is not None

    def where(any_of: int, none_of: int = 0, also: int = 0) -> int:
        return totals.where(
            0,
            lambda mask: bool(
                (mask >> shift) & any_of and not (mask >> shift) & none_of and (not also or (mask >> shift) & also)
            ),
        )

    busy = where(WORK)
    return {
        "span_ns": last - first,
        "busy_ns": busy,
        "idle_ns": last - first - busy,
        "compute_ns": where(COMPUTE),
        "comm_ns": where(COMM),
        "exposed_comm_ns": where(COMM, none_of=COMPUTE),
        "overlapped_comm_ns": where(COMM, also=COMPUTE),
        "copy_ns": where(COPY),
        "exposed_copy_ns": where(COPY, none_of=COMPUTE | COMM),
        "unclassified_ns": where(UNCLASSIFIED, none_of=COMPUTE | COMM | COPY),
    }
