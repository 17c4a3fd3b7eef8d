"""What only the whole run can say about how far its numbers are to be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from ..ingest.resolve import Resolved
from ..ingest.rows import first_row

RUN_QUALITY = pa.schema(
    {
        "source": pa.string(),
        "rank": pa.int64(),
        "rule": pa.string(),
        "count": pa.int64(),
        "effect_ns": pa.int64(),
        "sentence": pa.string(),
    }
)

Row = tuple[str | None, int | None, str, int, int | None, str]


def run_quality(
    con: duckdb.DuckDBPyConnection, resolved: list[Resolved], ambiguous: Sequence[int], damaged: Sequence[str]
) -> pa.Table:
    """Return the rows of ``quality`` that no single capture can write.

    Args:
        con: The run's tables, its collectives matched.
        resolved: The run's sources.
        ambiguous: Ranks whose collectives fit the others' at more than one place.
        damaged: A sentence for every file of the run that cannot be read.
    """
    rows: list[Row] = [
        (one.record["source"], one.rank, _rule(one), 1, None, f"{one.record['source']} {one.reason}.")
        for one in resolved
        if one.reason
    ]
    rows += [
        (one.record["source"], one.rank, "rank_inferred", 1, None, _inferred(one))
        for one in resolved
        if one.capture is not None and one.rank_source != "distributedInfo"
    ]
    rows += [(None, None, "run_file_damaged", 1, None, sentence) for sentence in damaged]
    rows += _representative(con)
    rows += _across_ranks(con, ambiguous)
    return pa.Table.from_pylist([dict(zip(RUN_QUALITY.names, row, strict=True)) for row in rows], schema=RUN_QUALITY)


def _rule(one: Resolved) -> str:
    if one.capture is None:
        return "duplicate_source"
    if "overlaps" in one.reason:
        return "rank_conflict"
    return "base_lost" if one.relative else "base_adopted"


def _inferred(one: Resolved) -> str:
    how = {
        "filename": "is taken from the file's name",
        "order": "is its place in the order of start times",
        "none": "is assumed: the trace names none",
    }
    return f"Rank {one.rank} of {one.record['source']} {how[one.rank_source]}."


def _representative(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """Compare each rank's profiled steps with the steps that only the timer saw."""
    medians = con.execute(
        """
        select rank, median(dur_ns) filter (source <> 'timer') as window_ns, median(dur_ns) filter (source = 'timer') as run_ns,
            count(*) filter (source = 'timer') as timed
        from steps where complete group by rank having window_ns > 0 and timed >= 10 order by rank
        """
    ).fetchall()
    return [
        (
            None,
            rank,
            "window_against_run",
            timed,
            int(window - run),
            f"Rank {rank}: the median profiled step took {window / 1e6:.3f} ms, the median of the {timed} steps outside "
            f"windows {run / 1e6:.3f} ms ({(window / run - 1) * 100:+.1f} %: the profiler's own cost and chance).",
        )
        for rank, window, run, timed in medians
    ]


def _doubts(con: duckdb.DuckDBPyConnection) -> list[Row]:
    """Say in how many collectives the clocks leave open who arrived last, and how far they are known."""
    split_up, doubtful, wait, error = first_row(
        con.execute(
            """
            select count(*), count(*) filter (not certain), sum(ns) filter (not certain)::bigint,
                (select max(clock_error_ns) from ranks)
            from (
                select match, bool_and(late_certain) as certain, sum(wait_ns) as ns from collectives
                where wait_ns is not null group by match
            )
            """
        )
    ) or (0, 0, None, None)
    if not doubtful or not error:
        return []
    sentence = (
        f"In {doubtful} of {split_up} collectives the clocks of the hosts, known to ± {error / 1e6:.3f} ms at worst, leave open "
        "which rank arrived last: their waiting is charged to none."
    )
    return [(None, None, "arrival_uncertain", doubtful, wait, sentence)]


def _across_ranks(con: duckdb.DuckDBPyConnection, ambiguous: Sequence[int]) -> list[Row]:
    """Say what of the collectives could not be matched, split or reconciled."""
    notes: list[Row] = []
    seen, matched, split_up = first_row(
        con.execute(
            "select count(*), count(match), count(wait_ns) from collectives where coalesce(op, '') not in ('send', 'recv')"
        )
    ) or (0, 0, 0)
    if split_up < seen:
        notes.append(
            (
                None,
                None,
                "collectives_unsplit",
                seen - split_up,
                None,
                f"Of {seen} collectives {matched} were found on other ranks too; for {split_up} waiting and transfer are told "
                "apart. The others lack a member, have one without a common clock, or do not make all ranks meet.",
            )
        )
    notes += _doubts(con)
    if ambiguous:
        listed = ", ".join(map(str, ambiguous))
        sentence = (
            f"The collectives of rank {listed} fit the other ranks' at more than one place: they are not matched. Sequence "
            "numbers or the job's step numbers would tell."
        )
        notes.append((None, None, "match_ambiguous", len(ambiguous), None, sentence))
    mismatches = con.execute(
        """
        select match, any_value(pg), any_value(seq), list(distinct op order by op) from collectives where match is not null
        group by match
        having count(distinct op) > 1 or count(distinct dtype) > 1 or (any_value(op) <> 'all_to_all' and count(distinct bytes) > 1)
        order by match
        """
    ).fetchall()
    if mismatches:
        _, group, seq, ops = mismatches[0]
        sentence = (
            f"In {len(mismatches)} collectives ranks disagree in operation, type or size, first in #{seq} of group {group} "
            f"({', '.join(ops)}): the ranks are out of step."
        )
        notes.append((None, None, "collective_mismatch", len(mismatches), None, sentence))
    return notes
