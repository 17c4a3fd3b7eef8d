"""What the sources of a run mean together: ranks of nameless files, capture numbers, conflicts, lost clocks, steps.

A pure function of the set of sources: the order of a directory or of ingestion changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

Record = dict[str, Any]

LISTED = 12  # ranks that coverage names


@dataclass(frozen=True)
class Resolved:
    """A source in the light of the others."""

    record: Record
    rank: int | None = None  # None when no event is used
    capture: int | None = None
    rank_source: str = "none"
    shift_ns: int = 0  # what its stamps still need to stand on the epoch's clock
    relative: bool = False  # its stamps stand on no shared clock
    step_base: int = 0  # the number of its first step
    counted: bool = True  # whether its steps enter averages
    reason: str = ""  # why it does not count, or what was assumed


def resolve(records: list[Record]) -> list[Resolved]:
    """Return every source resolved, ordered by source path and hash."""
    ordered = sorted(records, key=lambda one: (one["source"], one["sha256"] or ""))
    first_of: dict[str, str] = {}
    captures, others = [], []
    for record in ordered:
        usable = record["verdict"] != "quarantined" and record["capture_id"] is not None
        twin = first_of.get(record["sha256"]) if usable else None
        if not usable:
            others.append(Resolved(record, counted=False, rank=record["claimed_rank"], rank_source=_told(record)))
        elif twin is not None:
            others.append(
                Resolved(
                    record,
                    counted=False,
                    rank_source=_told(record),
                    reason=f"same content as {twin}: it adds nothing",
                )
            )
        else:
            first_of[record["sha256"]] = record["source"]
            captures.append(Resolved(record, rank=record["claimed_rank"], rank_source=_told(record)))
    captures = _adopt_clock(captures)
    captures = _number_nameless(captures)
    captures = _number_captures(captures)
    return sorted(captures + others, key=lambda one: (one.record["source"], one.record["sha256"] or ""))


def _told(record: Record) -> str:
    return record["rank_source"] or "none"


def _when(one: Resolved) -> tuple[int, str]:
    return (one.record["start_ns"] or 0) + one.shift_ns, one.record["sha256"]


def _adopt_clock(captures: list[Resolved]) -> list[Resolved]:
    """Give a cut file that lost its base the base on which all the others agree."""
    bases = {one.record["base_ns"] for one in captures if one.record["base_ns"]}
    result = []
    for one in captures:
        if one.record["base_ns"] is not None:
            result.append(one)
        elif len(bases) == 1:
            reason = "lost its baseTimeNanoseconds; the other ranks' is taken"
            result.append(replace(one, shift_ns=next(iter(bases)), reason=reason))
        else:
            reason = "lost its baseTimeNanoseconds: its stamps are relative and cross no rank"
            result.append(replace(one, relative=True, reason=reason))
    return result


def _number_nameless(captures: list[Resolved]) -> list[Resolved]:
    """Number captures whose rank nobody tells by start time, then hash, in the ranks that are free."""
    nameless = sorted((one for one in captures if one.rank is None), key=_when)
    taken = {one.rank for one in captures if one.rank is not None}
    free = (rank for rank in range(len(captures) + len(taken) + 1) if rank not in taken)
    told = "order" if len(nameless) > 1 else "none"
    numbered = [replace(one, rank=next(free), rank_source=told) for one in nameless]
    return [one for one in captures if one.rank is not None] + numbered


def _number_captures(captures: list[Resolved]) -> list[Resolved]:
    by_rank: dict[int, list[Resolved]] = defaultdict(list)
    for one in captures:
        assert one.rank is not None
        by_rank[one.rank].append(one)
    result = []
    for rank, mine in sorted(by_rank.items()):
        mine.sort(key=_when)
        known = [one for one in mine if one.record["first_job_step"] is not None]
        taken = [
            range(one.record["first_job_step"], one.record["first_job_step"] + one.record["n_steps"]) for one in known
        ]
        next_step = max((steps.stop for steps in taken), default=0)
        used: set[int] = set()
        for number, one in enumerate(mine):
            rival = next((other for other in mine if other is not one and _overlap(one, other)), None)
            if rival is not None:
                both = f"claims rank {rank} and overlaps in time with {rival.record['source']}: nothing adds them up"
                counted = min(_when(other) for other in mine if other is one or _overlap(one, other)) == _when(one)
                one = replace(one, reason="; ".join(filter(None, [one.reason, both])), counted=counted)
            steps = one.record["n_steps"] or 0
            first = one.record["first_job_step"]
            if first is None or used & set(range(first, first + steps)):
                first, next_step = next_step, next_step + steps
            used |= set(range(first, first + steps))
            result.append(replace(one, capture=number, step_base=first))
    return result


def _overlap(one: Resolved, other: Resolved) -> bool:
    if one.relative or other.relative or one.record["start_ns"] is None or other.record["start_ns"] is None:
        return False
    start, end = _when(one)[0], one.record["end_ns"] + one.shift_ns
    other_start, other_end = _when(other)[0], other.record["end_ns"] + other.shift_ns
    return bool(start < other_end and other_start < end)


def coverage(resolved: list[Resolved], extra_ranks: set[int] = frozenset(), world_size: int | None = None) -> str:  # type: ignore[assignment]
    """Say which ranks of the job are there: ``61 of 64 ranks; missing 7, 12, 40``.

    Args:
        resolved: The run's sources.
        extra_ranks: Ranks known by other means, such as the always-on collector.
        world_size: The job's size by other means.
    """
    present = {one.rank for one in resolved if one.capture is not None and one.rank is not None} | extra_ranks
    sizes = [one.record["world_size"] for one in resolved if one.capture is not None and one.record["world_size"]]
    world = max([*sizes, *([world_size] if world_size else [])], default=None)
    if world is None:
        return f"{len(present)} rank{'s' if len(present) != 1 else ''}; the job's size is not recorded"
    beyond = sorted(rank for rank in present if rank >= world)
    within = len(present) - len(beyond)
    # Never a list of all: a damaged header can claim a job of any size.
    missing = list(islice((rank for rank in range(world) if rank not in present), LISTED))
    text = f"{within} of {world} rank{'s' if world != 1 else ''}"
    if missing:
        text += f"; missing {_listed(missing, world - within)}"
    if beyond:
        text += f"; beyond the job's size {_listed(beyond[:LISTED], len(beyond))}"
    return text


def _listed(first: list[int], count: int) -> str:
    shown = ", ".join(map(str, first))
    return shown if count == len(first) else f"{shown} and {count - len(first)} more"
