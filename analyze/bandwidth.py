"""Bandwidth of collectives: algorithm bandwidth and bus bandwidth as NCCL's tests define them.

algbw = bytes of the whole buffer / time. busbw = algbw x a factor that makes it comparable with the link's speed
(nccl-tests, PERFORMANCE.md): 2(n-1)/n for all_reduce; (n-1)/n for all_gather, reduce_scatter and all_to_all; 1 for
broadcast, reduce, send and recv.
"""

from __future__ import annotations

import pyarrow as pa


def bus_factor(op: str | None, group_size: int | None) -> float | None:
    """Return busbw / algbw of an operation, None when unknown or when the group has one member."""
    if op is None or group_size is None or group_size < 2:
        return None
    share = (group_size - 1) / group_size
    factors = {
        "all_reduce": 2 * share,
        "all_gather": share,
        "reduce_scatter": share,
        "all_to_all": share,
        "broadcast": 1.0,
        "reduce": 1.0,
        "send": 1.0,
        "recv": 1.0,
    }
    return factors.get(op)


def bandwidth(
    op: str | None, size: int | None, dur_ns: int | None, group_size: int | None
) -> tuple[float | None, float | None]:
    """Return (algbw, busbw) in bytes/s, None where size, duration, operation or group is unknown."""
    if not size or not dur_ns or dur_ns <= 0 or (group_size is not None and group_size < 2):
        return None, None
    algbw = size / (dur_ns / 1e9)
    factor = bus_factor(op, group_size)
    return algbw, None if factor is None else algbw * factor


def bandwidths(collectives: pa.Table) -> dict[str, pa.Array]:
    """Return the columns ``algbw`` and ``busbw`` of a table of collectives."""
    rows = zip(
        *(collectives[name].to_pylist() for name in ("op", "bytes", "start_ns", "end_ns", "group_size")),
        strict=True,
    )
    pairs = [bandwidth(op, size, end - start, group) for op, size, start, end, group in rows]
    return {
        "algbw": pa.array([algbw for algbw, _ in pairs], pa.float64()),
        "busbw": pa.array([busbw for _, busbw in pairs], pa.float64()),
    }
