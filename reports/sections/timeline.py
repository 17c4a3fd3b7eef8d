"""The median and the worst step as a timeline that can be zoomed: host threads, loader, device streams."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from .. import units
from ..blocks import Block, Chart, Note, Section
from ..book import Book

EVENTS_DRAWN = 10_000
NAME_LENGTH = 160

_COLOUR_OF_CLASS = {
    "compute": "compute",
    "communication": "comm_transfer",
    "copy": "exposed_copy",
    "unclassified": "unclassified",
}
_COLOUR_OF_KIND = {
    "dataloader": "data_wait",
    "sync": "sync",
    "runtime": "host",
    "operator": "host",
    "collective": "comm_transfer",
}


def section(book: Book) -> Section:
    """Return the timelines."""
    steps = book.ask(
        "timeline_steps",
        "Among all judged steps of all ranks: the one in the middle, and the longest.",
        "steps",
    )
    charts = [chart for step in steps.rows if (chart := _chart(book, step))]
    blocks: list[Block] = [*charts] or [
        Note("No timeline: no profiled step with timed events was recorded.", "unknown")
    ]
    return Section("timeline", "Timeline", "What happens inside one step?", blocks)


def _chart(book: Book, step: dict[str, Any]) -> Chart | None:
    events = book.ask(
        "timeline_events",
        f"The longest timed events of rank {step['rank']} that touch the {step['role']} step.",
        "steps",
        rank_=step["rank"],
        capture_=step["capture"],
        from_ns=step["start_ns"],
        to_ns=step["end_ns"],
        limit_events=EVENTS_DRAWN,
    )
    if not events.rows:
        return None
    found = events.rows[0]["found"]
    cap = f" Its {EVENTS_DRAWN:,} longest of {found:,} events are drawn." if found > EVENTS_DRAWN else ""
    took = units.duration(step["dur_ns"])
    title = f"The {step['role']} of {step['steps']} judged steps: rank {step['rank']}, step {step['step']}, {took}."
    return Chart("timeline", {"dur": step["dur_ns"], **_packed(events.rows)}, title + cap, title, events.id)


def _packed(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return names, colours and rows of numbers, four an event: name, start, duration, colour."""
    names: dict[str, int] = {}
    colours: dict[str, int] = {}
    rows: dict[tuple[int, str], list[tuple[int, int, int, int]]] = defaultdict(list)
    for event in events:
        name = names.setdefault(units.clip(units.text(event["name"]), NAME_LENGTH), len(names))
        colour = colours.setdefault(_colour(event), len(colours))
        rows[_row(event)].append((event["at_ns"], -event["dur_ns"], name, colour))
    return {
        "names": list(names),
        "colours": list(colours),
        "rows": [
            {"label": row[1], "events": [n for at, dur, name, c in sorted(rows[row]) for n in (name, at, -dur, c)]}
            for row in sorted(rows, key=_natural)
        ],
    }


def _natural(row: tuple[int, str]) -> tuple[int, str]:
    """Sort stream 7 before stream 20."""
    return row[0], re.sub(r"\d+", lambda digits: digits[0].zfill(20), row[1])


def _row(event: dict[str, Any]) -> tuple[int, str]:
    """Return where an event is drawn: loader on top, then host threads, then streams."""
    if event["kind"] == "dataloader":
        return 0, "data loader"
    if event["device"] is not None and event["kind"] in ("kernel", "copy", "memset", "sync"):
        return 2, f"device {event['device']} · stream {units.text(event['stream'])}"
    return 1, f"thread {units.text(event['thread'])}"


def _colour(event: dict[str, Any]) -> str:
    if event["kind"] == "dataloader":
        return "data_wait"
    return _COLOUR_OF_CLASS.get(event["class"]) or _COLOUR_OF_KIND.get(event["kind"], "unexplained")
