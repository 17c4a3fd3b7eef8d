"""Findings: what is wrong, what to change, what it would win, and how sure we are.

One file a kind (see ``docs/extending.md``); each has a function ``find(run)`` that yields ``Finding``s. They are
ranked by the time a step would give back, not by the size of a category.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import (
    communication,
    copies,
    held,
    host,
    host_memory,
    idle,
    links,
    loader,
    loader_startup,
    memory,
    out_of_memory,
    straggler,
    trust,
)
from .finding import Finding, findings_table

if TYPE_CHECKING:
    from ..run import Run

__all__ = ["Finding", "find_all", "findings_table", "verdict"]

FINDERS = (
    loader.find,
    loader_startup.find,
    communication.find,
    straggler.find,
    links.find,
    copies.find,
    host.find,
    host.find_sync,
    host.find_allocator,
    idle.find,
    memory.find,
    held.find,
    held.find_replicated,
    host_memory.find,
    out_of_memory.find,
)


def find_all(run: Run) -> list[Finding]:
    """Return the run's findings, the largest recoverable time first; never an empty list."""
    found = [finding for find in FINDERS for finding in find(run)]
    found = _ordered(found)
    limits = list(trust.find(run, found))
    if any(one.kind == "cannot_tell" for one in limits):
        stepless = [one for one in found if one.step_scope == out_of_memory.SCOPE]  # they rest on no step
        return stepless + limits + [replace(one, confidence="low") for one in found if one not in stepless]
    return found + limits


def _ordered(found: list[Finding]) -> list[Finding]:
    """Return findings by what they lose. What a finding explains most of, such as a straggler its own idle time, follows it."""
    explained = {one.explains: one.lost_ns_per_step or 0 for one in found if one.explains}

    def place(one: Finding) -> tuple[float, bool, str, int]:
        lost, by = one.lost_ns_per_step or 0, explained.get(one.kind, 0)
        follows = by < lost <= 2 * by
        return -(by if follows else lost), follows, one.kind, -1 if one.rank is None else one.rank

    return sorted(found, key=place)


def verdict(found: list[Finding]) -> str:
    """Return the run's answer in one sentence."""
    return found[0].sentence
