"""The median and the worst step as a timeline that can be zoomed: host threads, loader, device streams."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .. import units
from ..blocks import Block, Chart, Note, Section
from ..book import Book

EVENTS_DRAWN = 4000
NAME_LENGTH = 160

_COLOUR_OF_CLASS = {
    "compute": "compute",
    "communication": "exposed_comm",
    "copy": "exposed_copy",
    "unclassified": "unclassified",
}
_COLOUR_OF_KIND = {
    "dataloader": "data_wait",
    "sync": "sync",
    "runtime": "host",
    "operator": "host",
    "collective": "exposed_comm",
}


def section(book: Book) -> Section:
    """Return the timelines."""
    steps = book.ask(
        "timeline_steps",
        "Among all judged steps of all ranks: the one in the middle, and the longest.",
        "steps",
    )
    charts = [_chart(book, step, steps.id) for step in steps.rows]
    blocks: list[Block] = [chart for chart in charts if chart] or [
        Note("No timeline: no profiled step with timed events was recorded.", "unknown")
    ]
    return Section("timeline", "Timeline", "What happens inside one step?", blocks)


def _chart(book: Book, step: dict[str, Any], show: str) -> Chart | None:
    # Bulky, so not kept as evidence: the events are in the picture.
    events = book.rows(
        "timeline_events",
        rank_=step["rank"],
        capture_=step["capture"],
        from_ns=step["start_ns"],
        to_ns=step["end_ns"],
        limit_events=EVENTS_DRAWN,
    )
    if not events:
        return None
    found = events[0]["found"]
    cap = f" Its {EVENTS_DRAWN:,} longest of {found:,} events are drawn." if found > len(events) else ""
    title = f"The {step['role']} step: rank {step['rank']}, step {step['step']}, {units.duration(step['dur_ns'])}."
    return Chart("timeline", {"dur": step["dur_ns"], **_packed(events)}, title + cap, title, show)


def _packed(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return names, colours and rows of numbers: [name, start, duration, colour] four by four."""
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
            {"label": label, "events": [n for at, dur, name, c in sorted(found) for n in (name, at, -dur, c)]}
            for (_, label), found in sorted(rows.items())
        ],
    }


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
