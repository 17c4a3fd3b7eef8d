"""Which enqueued collective each span of a CPU backend is, by what torch's flight recorder told the collector.

The spans tell operation and size, the recorder group, number and moment. Collectives of one operation and size begin in
the order in which they were enqueued, none before it was, as late as that allows. Each thread serves one group, so
where groups are alike a second pass goes thread by thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from .sweep import Int

SLACK_NS = 10_000  # by which the profiler's clock may differ from the system's; no collective of a CPU is as short


class Spans(NamedTuple):
    """Spans as the trace tells them, ordered by start."""

    start: Int
    thread: Int
    kind: Sequence[Hashable]  # operation and elements of the input


class Entries(NamedTuple):
    """Collectives as the recorder tells them, ordered by creation."""

    created: Int
    group: Sequence[str]
    kind: Sequence[Hashable]


def name_spans(collectives: pa.Table, groups: pa.Table, told: Any) -> pa.Table:
    """Give the spans among collectives group, number, size and group size, where the recorder and the header tell them.

    Without the recorder they belong to the only group there is, when the header tells that there is but one.
    """
    spans = np.flatnonzero(collectives["name"].is_valid().to_numpy() & collectives["pg"].is_null().to_numpy())
    if not len(spans):
        return collectives
    columns = {name: collectives[name].to_pylist() for name in ("pg", "seq", "bytes", "group_size")}
    sizes = dict(zip(groups["pg"].to_pylist(), groups["size"].to_pylist(), strict=True))
    several = len(set(groups["members"].to_pylist())) > 1
    read = entries_of(told)
    mine = collectives.take(pa.array(spans))
    places = np.full(len(spans), -1, np.int64)
    if read is not None:
        kinds = list(zip(mine["name"].to_pylist(), (n or 0 for n in mine["input_elements"].to_pylist()), strict=True))
        thread = mine["thread"].combine_chunks().dictionary_encode().indices.to_numpy()
        places = assign(Spans(mine["start_ns"].to_numpy(), thread, kinds), read[0])
    width = mine["element_bytes"].to_pylist()
    for at, place, each in zip(spans.tolist(), places.tolist(), width, strict=True):
        if read is not None and place >= 0:
            group, outputs = read[1]["group"][place], read[1]["outputs"][place]
            columns["pg"][at], columns["seq"][at] = group, read[1]["seq"][place]
            columns["group_size"][at] = sizes.get(group)
            if columns["bytes"][at] is None and each is not None and outputs:
                columns["bytes"][at] = outputs * each
        elif not several and sizes:
            columns["group_size"][at] = max(size or 0 for size in sizes.values()) or None
    for name, values in columns.items():
        place = collectives.schema.get_field_index(name)
        collectives = collectives.set_column(place, name, pa.array(values, collectives.schema.field(name).type))
    return collectives


def entries_of(told: Any) -> tuple[Entries, dict[str, list[Any]]] | None:
    """Return the recorder's entries from a trace's header, None when it has none that can be read."""
    names = ("group", "seq", "name", "created_ns", "inputs", "outputs")
    if not isinstance(told, dict) or not all(isinstance(told.get(name), list) for name in names):
        return None
    columns = [told[name] for name in names]
    rows = list(zip(*columns, strict=False))
    if any(not isinstance(value, int) for row in rows for value in (row[1], *row[3:])):
        return None
    rows.sort(key=lambda row: row[3])
    by_name = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    kinds = list(zip(by_name["name"], by_name["inputs"], strict=True))
    return Entries(np.array(by_name["created_ns"], np.int64), by_name["group"], kinds), by_name


def assign(spans: Spans, entries: Entries) -> Int:
    """Return for each span the place of its entry, -1 for none."""
    anyhow = _in_order(spans, entries, [""] * len(spans.start), [""] * len(entries.created))
    votes: dict[int, Counter[str]] = {}
    for thread, place in zip(spans.thread.tolist(), anyhow.tolist(), strict=True):
        if place >= 0:
            votes.setdefault(thread, Counter())[entries.group[place]] += 1
    serves = {thread: counts.most_common(1)[0][0] for thread, counts in votes.items()}
    return _in_order(spans, entries, [serves.get(one, "") for one in spans.thread.tolist()], entries.group)


def _in_order(spans: Spans, entries: Entries, of_span: Sequence[str], of_entry: Sequence[str]) -> Int:
    found = np.full(len(spans.start), -1, np.int64)
    mine, theirs = _places(zip(of_span, spans.kind, strict=True)), _places(zip(of_entry, entries.kind, strict=True))
    for kind in mine.keys() & theirs.keys():
        own, told = np.array(mine[kind]), np.array(theirs[kind])
        shift = _shift(spans.start[own], entries.created[told])
        places = np.arange(len(own)) + shift
        inside = (places >= 0) & (places < len(told))
        found[own[inside]] = told[places[inside]]
    return found


def _places(keys: Any) -> dict[Hashable, list[int]]:
    places: dict[Hashable, list[int]] = {}
    for at, key in enumerate(keys):
        places.setdefault(key, []).append(at)
    return places


def _shift(start: Int, created: Int) -> int:
    """Return by how many places the entries are ahead: the most that lets none begin before it was enqueued."""
    for shift in range(len(created) - 1, -len(start), -1):
        first, last = max(0, -shift), min(len(start), len(created) - shift)
        if (created[first + shift : last + shift] <= start[first:last] + SLACK_NS).all():
            return shift
    return -len(start)
