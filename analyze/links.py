"""How fast the links are: latency and bandwidth fitted over sizes, and the one rank whose link is slow.

time = latency + bytes x factor / bandwidth, with the factor of ``bandwidth.bus_factor``: what each member has to send at
least. Slopes are Theil and Sen's, the median over all pairs of sizes, so that a few odd sizes do not bend the fit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import duckdb
import pyarrow as pa

from .bandwidth import bus_factor

LEAST_SIZES = 3
SLOWER = 1.25  # than every group without the rank; less is not told from chance

TIMES_SQL = """
    select pg, op, group_size, bytes, members, calls, ns, (select count(distinct step) from judged) as steps from link_times
    order by pg, op, group_size, bytes, members
"""

FITS = pa.schema(
    {
        "pg": pa.string(),
        "op": pa.string(),
        "group_size": pa.int64(),
        "calls": pa.int64(),
        "sizes": pa.int64(),
        "smallest": pa.int64(),
        "largest": pa.int64(),
        "latency_ns": pa.float64(),
        "bandwidth": pa.float64(),  # bytes of the buffer per second
        "link_bandwidth": pa.float64(),  # bytes per second that each member has to send at least
        "residual": pa.float64(),  # the largest, as a share of the time
    }
)


@dataclass(frozen=True)
class Time:
    """The time of one group's collectives of one operation and size."""

    pg: str | None
    op: str
    group_size: int | None
    size: int
    members: tuple[int, ...]
    calls: int
    ns: float
    steps: int


@dataclass(frozen=True)
class SlowLink:
    """The rank behind a slow link: every group with it is ``factor`` times slower than those without, or more."""

    rank: int
    factor: float
    groups: int  # that hold it
    others: int
    lost_ns: float  # a step


def times(con: duckdb.DuckDBPyConnection) -> list[Time]:
    """Return the times of all groups, operations and sizes."""
    return [
        Time(pg, op, count, size, tuple(members), calls, ns, steps)
        for pg, op, count, size, members, calls, ns, steps in con.sql(TIMES_SQL).fetchall()
    ]


def fit_all(con: duckdb.DuckDBPyConnection) -> None:
    """Fill the table ``fits``."""
    groups: dict[tuple, list[Time]] = defaultdict(list)
    for one in times(con):
        groups[one.pg, one.op, one.group_size, one.members].append(one)
    rows = [fit(group) for group in groups.values()]
    con.register("fit_rows", pa.Table.from_pylist(rows, schema=FITS))
    con.execute("insert into fits from fit_rows")
    con.unregister("fit_rows")


def fit(group: list[Time]) -> dict[str, object]:
    """Return the row of ``fits`` of one group and operation; what its sizes cannot tell is None."""
    first, sizes = group[0], [one.size for one in group]
    members = len(first.members) if first.group_size is None else first.group_size
    slope = intercept = residual = None
    if len(group) >= LEAST_SIZES:
        slope = median((b.ns - a.ns) / (b.size - a.size) for a, b in combinations(group, 2))
        if slope > 0:
            intercept = median(one.ns - slope * one.size for one in group)
            residual = max(abs(intercept + slope * one.size - one.ns) / one.ns for one in group)
    per_ns = 1 / slope if slope and intercept is not None else None
    factor = bus_factor(first.op, members)
    return {
        "pg": first.pg,
        "op": first.op,
        "group_size": members,
        "calls": sum(one.calls for one in group),
        "sizes": len(group),
        "smallest": min(sizes),
        "largest": max(sizes),
        "latency_ns": intercept,
        "bandwidth": per_ns and per_ns * 1e9,
        "link_bandwidth": per_ns and factor and per_ns * factor * 1e9,
        "residual": residual,
    }


def slow_link(found: list[Time]) -> SlowLink | None:
    """Return the rank whose link alone is slow, None when the groups single out none.

    Groups are compared where they do the same: operation, size and number of members. A rank is singled out when every
    group with it is slower than every group without it, and no other rank explains that as well.
    """
    alike: dict[tuple, list[Time]] = defaultdict(list)
    for one in found:
        alike[one.op, one.size, one.group_size, len(one.members)].append(one)
    compared = [
        (one, one.ns / min(other.ns for other in same)) for same in alike.values() if len(same) > 1 for one in same
    ]
    isolated = []
    for rank in sorted({rank for one, _ in compared for rank in one.members}):
        inside = [(one, slower) for one, slower in compared if rank in one.members]
        outside = [slower for one, slower in compared if rank not in one.members]
        groups = {one.members for one, _ in inside}
        if len(groups) < 2 or not outside:  # one slow group alone does not tell which of its members it is
            continue
        factor = min(slower for _, slower in inside) / max(outside)
        if factor >= SLOWER:
            lost = sum(one.ns * (1 - 1 / slower) * one.calls / one.steps for one, slower in inside if one.steps)
            others = {one.members for one, _ in compared} - groups
            isolated.append(SlowLink(rank, factor, len(groups), len(others), lost))
    return isolated[0] if len(isolated) == 1 else None
