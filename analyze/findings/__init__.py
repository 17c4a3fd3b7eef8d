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
    loader,
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
    communication.find,
    straggler.find,
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
    found.sort(key=lambda one: (-(one.lost_ns_per_step or 0), one.kind, one.rank if one.rank is not None else -1))
    limits = list(trust.find(run, found))
    if any(one.kind == "cannot_tell" for one in limits):
        stepless = [one for one in found if one.step_scope == out_of_memory.SCOPE]  # they rest on no step
        return stepless + limits + [replace(one, confidence="low") for one in found if one not in stepless]
    return found + limits


def verdict(found: list[Finding]) -> str:
    """Return the run's answer in one sentence."""
    return found[0].sentence
