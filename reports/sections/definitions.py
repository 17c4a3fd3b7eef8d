"""How the numbers are defined, in short; the full text is docs/definitions.md."""

from __future__ import annotations

from ..blocks import Section, Terms
from ..book import DEFINITIONS, Book

_ENTRIES = (
    ("Time", "time", "Integer nanoseconds from end to end; rounding happens only where a number is printed."),
    ("Unknown", "unknown", "What was not recorded is unknown. It is never shown as zero."),
    (
        "Step",
        "steps",
        "From its marker's start (or the previous step's end, if later) to the end of its marker or of the "
        "last device work launched in it. Work belongs to the step that launched it.",
    ),
    (
        "Judged step",
        "steps",
        "A complete profiled step. Steps that hold the profiler's own start or stop count in no average, "
        "unless there are no others.",
    ),
    (
        "Ledger",
        "ledger",
        "A step's wall time, split by priority: compute, exposed communication, exposed copies, unclassified, "
        "data loading, synchronisation, allocator, host, unexplained. The parts sum to the step to the "
        "nanosecond.",
    ),
    ("Exposed", "exposed", "Time that nothing more useful hides: what would go away if the cause did."),
    ("Data wait", "data-wait", "Time inside the loader's next() with nothing else at work."),
    (
        "Device busy",
        "device-time",
        "The union of all device events over the span from the first to the last.",
    ),
    (
        "Findings",
        "findings",
        "Ranked by the time they would give back per step. Below 1 % of the step nothing is reported.",
    ),
)


def section(_: Book) -> Section:
    """Return the definitions."""
    entries = [(term, meaning, f"{DEFINITIONS}#{anchor}") for term, anchor, meaning in _ENTRIES]
    return Section(
        "definitions",
        "How the numbers are defined",
        "One line each; the link has the whole.",
        [Terms(entries)],
    )
