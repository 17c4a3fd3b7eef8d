"""shared_memory_limit and host_memory_limit: what the host has left, which kills loader workers first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..query import query_text, rows_of
from .finding import Finding, evidence, percent, size

if TYPE_CHECKING:
    from ..run import Run

NEAR_LIMIT = 0.92  # of /dev/shm, of the container's limit, of the machine
Row = dict[str, Any]


def find(run: Run) -> Iterator[Finding]:
    """Find host memory near its limit: the fullest rank for each limit."""
    query = query_text("memory_host")
    seen: set[str] = set()
    for row in rows_of(run.con.sql(query)):
        if row["share"] >= NEAR_LIMIT and row["what"] not in seen:
            seen.add(row["what"])
            yield _explain(row, *evidence(run, query))


def _explain(row: Row, sql: str, rows: str) -> Finding:
    full = f"{percent(row['share'])} full at step {row['step']} ({size(row['used'])} of {size(row['size'])})"
    who = ""
    if row["rss"] is not None:
        who = f" The process holds {size(row['rss'])}"
        who += f", its {row['workers']} loader workers {size(row['workers_pss'])}." if row["workers_pss"] else "."
    if row["what"] == "shared memory":
        return _finding(
            "shared_memory_limit",
            f"/dev/shm of rank {row['rank']}'s host was {full}: loader workers hand their batches over through it, and die "
            f"with a bus error once it is full.{who}",
            "Give it more room (docker run --shm-size, a larger emptyDir of medium Memory), or keep less in it: fewer "
            "workers, a smaller prefetch_factor, smaller batches.",
            row["rank"],
            sql,
            rows,
        )
    return _finding(
        "host_memory_limit",
        f"The {row['what']} of rank {row['rank']} was {full}: beyond it the kernel kills processes, loader workers often "
        f"first.{who}",
        "Hold less: fewer workers (each forked one copies what it touches of the dataset: keep it in NumPy arrays or Arrow "
        "rather than Python lists), a smaller prefetch_factor, or a larger limit.",
        row["rank"],
        sql,
        rows,
    )


def _finding(kind: str, sentence: str, advice: str, rank: int, sql: str, rows: str) -> Finding:
    scope = "whole run"
    return Finding(kind, sentence, advice, sql, rows, confidence="high", severity="high", rank=rank, step_scope=scope)
