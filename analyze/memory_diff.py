"""Two memory profiles compared: what grew, by category, place or stack. The parts sum to the difference of the peaks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ingest.errors import StepscopeError
from .query import rows_of

if TYPE_CHECKING:
    from .run import Run

Row = dict[str, Any]
WAYS = {"category": ("category", "phase"), "place": ("category", "module", "place"), "stack": ("category", "stack")}


@dataclass(frozen=True)
class Change:
    """One part: what it is, in the columns of ``WAYS`` (None where not told), and its bytes at the peaks."""

    what: tuple[str | None, ...]
    before: int
    after: int

    @property
    def difference(self) -> int:
        """Bytes by which it grew, negative where it shrank."""
        return self.after - self.before


@dataclass(frozen=True)
class MemoryDiff:
    """Two recordings (rows of ``memory_peaks``) and the parts of their peaks (rows of ``memory_parts``)."""

    before: Row
    after: Row
    parts_before: list[Row]
    parts_after: list[Row]

    @property
    def difference(self) -> int:
        """Bytes by which the peak grew, negative where it shrank."""
        return int(self.after["peak"] - self.before["peak"])

    def by(self, way: str) -> list[Change]:
        """Return what changed, the largest change first; the differences sum to ``difference``.

        Args:
            way: A key of ``WAYS``.
        """
        sums = [_sums(parts, WAYS[way]) for parts in (self.parts_before, self.parts_after)]
        changes = [Change(what, *(side[what] for side in sums)) for what in {**sums[0], **sums[1]}]
        changed = [one for one in changes if one.difference]
        return sorted(changed, key=lambda one: (-abs(one.difference), [part or "" for part in one.what]))


def compare_memory(before: Run, after: Run, rank: int | None = None) -> MemoryDiff:
    """Compare the highest peaks of two runs, on a device that both recorded: an accelerator if there is one.

    Args:
        before: The run to compare with.
        after: The run that is asked about.
        rank: Whose memory; the rank with the highest peak in either run where None.

    Raises:
        StepscopeError: A run has no recording of memory, or they have no device in common.
    """
    found = [_recordings(run, rank) for run in (before, after)]
    common = {row["device"] for row in found[0]} & {row["device"] for row in found[1]}
    if not common:
        had = " and ".join(", ".join(sorted({row["device"] for row in rows})) for rows in found)
        raise StepscopeError(f"{before.path} and {after.path} recorded the memory of different devices ({had}).")
    first, second = (next(row for row in rows if row["device"] in common) for rows in found)
    if first["device"] != second["device"]:
        first = next(row for row in found[0] if row["device"] == second["device"])
    return MemoryDiff(first, second, _parts(before, first), _parts(after, second))


def _recordings(run: Run, rank: int | None) -> list[Row]:
    rows = [row for row in rows_of(run.query("memory_recordings")) if rank is None or row["rank"] == rank]
    if not rows:
        who = "" if rank is None else f" of rank {rank}"
        raise StepscopeError(
            f"{run.path} has no recording of memory{who}. Record a window (stepscope.every), or ingest a memory snapshot."
        )
    return rows


def _parts(run: Run, row: Row) -> list[Row]:
    return rows_of(run.query("memory_parts", rank_=row["rank"], source_=row["source"], device_=row["device"]))


def _sums(parts: list[Row], columns: tuple[str, ...]) -> Counter[tuple[str | None, ...]]:
    sums: Counter[tuple[str | None, ...]] = Counter()
    for part in parts:
        sums[tuple(part[column] for column in columns)] += part["bytes"]
    return sums
