"""The colours of the ledger, defined once and used everywhere: page, figures, timeline, terminal.

Neighbours in the stack differ in lightness as well as in hue, so that colour-blind readers tell them apart. Each
has a tone for light paper and one for a dark screen. ``test_report_palette.py`` measures the distances.
"""

from __future__ import annotations

from typing import NamedTuple

from ..ingest.schema import COMM_SPLIT, LEDGER_CATEGORIES


class Tone(NamedTuple):
    """A category's label, what it means in a few words, and its colours."""

    label: str
    meaning: str
    light: str
    dark: str


TONES = {
    "compute": Tone("compute", "kernels run (operators, in a CPU-only run)", "#5384bc", "#6fb1de"),
    "exposed_comm": Tone("exposed communication", "communication that nothing hides", "#f5dcc8", "#f7e0cf"),
    "comm_transfer": Tone("communication, transfer", "bytes on the wire, exposed", "#e19e60", "#e5a376"),
    "comm_wait": Tone("communication, wait", "waiting for other ranks, exposed", "#713018", "#8a4630"),
    "exposed_copy": Tone("exposed copies", "copies that nothing hides", "#d7c826", "#d1ce3c"),
    "unclassified": Tone("unclassified device work", "the evidence does not say what it is", "#69418a", "#9775b7"),
    "data_wait": Tone("data loading", "the loop waits for its next batch", "#d6532f", "#d8402c"),
    "sync": Tone("synchronisation", "synchronising calls, device idle", "#4e42d1", "#6f56d7"),
    "allocator": Tone("allocator", "memory is reserved or released", "#2cae7f", "#aaeeec"),
    "host": Tone("host", "operators and launches, nothing else at work", "#22565d", "#3db691"),
    "unexplained": Tone("unexplained", "nothing recorded says why", "#989aa6", "#5f616d"),
}
ORDER = [name for name in TONES if name in (*LEDGER_CATEGORIES, *COMM_SPLIT)]

# The category that a kind of finding is about: its card wears that colour.
_OF_FINDING = {
    "loader_bound": "data_wait",
    "exposed_communication": "comm_transfer",
    "straggler": "comm_wait",
    "exposed_copy": "exposed_copy",
    "host_bound": "host",
    "host_sync": "sync",
    "allocator_stall": "allocator",
    "idle_unexplained": "unexplained",
    "memory_limit": "allocator",
    "memory_growth": "allocator",
    "activations_held": "allocator",
    "optimizer_replicated": "allocator",
    "shared_memory_limit": "data_wait",
    "host_memory_limit": "host",
    "out_of_memory": "allocator",
    "fragmentation": "allocator",
    "nothing_wrong": "compute",
}

# What memory is made of wears the ledger's tones too, in the order in which it is stacked.
OF_MEMORY = {
    "parameter": "compute",
    "optimizer": "exposed_copy",
    "gradient": "comm_transfer",
    "activation": "allocator",
    "input": "data_wait",
    "temporary": "unclassified",
    "detail": "host",
    "unknown": "unexplained",
}


def of_finding(kind: str) -> str:
    """Return the CSS colour of a kind of finding."""
    return variable(_OF_FINDING.get(kind, "unexplained"))


def label(category: str) -> str:
    """Return how a category is called in print."""
    return TONES[category].label if category in TONES else category.replace("_", " ")


def meaning(category: str) -> str:
    """Return what a category means in a few words."""
    return TONES[category].meaning if category in TONES else ""


def variable(category: str) -> str:
    """Return the CSS colour of a category, with the one of ``unexplained`` for those without their own."""
    return f"var(--{category if category in TONES else 'unexplained'})"


def css(theme: str) -> str:
    """Return the CSS custom properties of a theme, ``light`` or ``dark``."""
    return "".join(f"--{name}:{getattr(tone, theme)};" for name, tone in TONES.items())
