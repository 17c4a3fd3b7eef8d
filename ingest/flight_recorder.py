"""Reads flight-recorder dumps of ``torch.distributed``: what each rank's process groups had asked for and finished.

A dump is a pickle of plain data or JSON, one file a rank. Nothing in it is ever executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .pickle_stream import PlainPickle
from .text import Refused

MOST_BYTES = 1 << 30  # a ring of 20 000 entries with stacks takes some 100 MB


@dataclass(frozen=True)
class Entry:
    """One collective or point-to-point operation in the ring of one rank."""

    group: str
    seq: int  # of the group's collectives, or of its point-to-point operations
    op: str  # as torch names it, without the backend: all_reduce, send 0->3
    dtypes: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]  # input, then output
    state: str  # scheduled, started, completed
    p2p: bool


@dataclass
class Group:
    """A process group as one rank knows it; None is unknown."""

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()  # global ranks, empty when the dump does not list them
    enqueued: int | None = None
    completed: int | None = None
    p2p: bool = False  # whether point-to-point operations share its counters


@dataclass
class Dump:
    """One rank's dump."""

    source: str
    rank: int
    groups: dict[str, Group] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)


def read_dumps(targets: Iterable[str]) -> tuple[list[Dump], list[str]]:
    """Read dump files and directories of them.

    Returns:
        The dumps by rank, and a sentence for each file that could not be used. Files in a directory that are
        neither pickle nor JSON are passed over in silence.
    """
    dumps: dict[int, Dump] = {}
    problems: list[str] = []
    for path, named in _files(targets):
        try:
            dump = read_dump(path)
        except Refused as refused:
            if named or _looks_like_a_dump(path):
                problems.append(f"{path} {refused}.")
            continue
        except OSError as error:
            problems.append(f"{path} cannot be read: {error.strerror}.")
            continue
        if dump.rank in dumps:
            problems.append(f"{path} is a second dump of rank {dump.rank}, beside {dumps[dump.rank].source}: not used.")
        else:
            dumps[dump.rank] = dump
    return [dumps[rank] for rank in sorted(dumps)], problems


def _files(targets: Iterable[str]) -> list[tuple[Path, bool]]:
    found: dict[Path, bool] = {}
    for target in targets:
        path = Path(target)
        if path.is_dir():
            found.update((one, False) for one in sorted(path.rglob("*")) if one.is_file() and one not in found)
        else:
            found[path] = True
    return list(found.items())


def _looks_like_a_dump(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) in (b"\x80", b"{")


def read_dump(path: Path) -> Dump:
    """Read one dump.

    Raises:
        Refused: The file is no dump, or holds more than plain data; the message continues "FILE ...".
        OSError: The file cannot be read.
    """
    content = _content(path)
    if not isinstance(content, dict) or not isinstance(content.get("entries"), list | tuple):
        raise Refused("is no flight-recorder dump (it has no entries)")
    groups = _groups(content)
    try:
        entries = [_entry(one) for one in content["entries"]]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise Refused(f"has an entry that is not understood ({error})") from error
    dump = Dump(str(path), _rank(path, groups), groups, entries)
    _fill(dump, content)
    return dump


def _content(path: Path) -> Any:
    if path.stat().st_size > MOST_BYTES:
        raise Refused(f"has more than {MOST_BYTES >> 20} MiB, too much for a dump")
    data = path.read_bytes()
    if data[:1] == b"\x80":
        return PlainPickle(iter([data])).load()
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Refused("is neither a pickle nor JSON") from error


def _rank(path: Path, groups: dict[str, Group]) -> int:
    """The rank stands in the file's name only: after "rank", else it is the last number (torch appends it)."""
    told = re.search(r"rank[-_=]?(\d+)", path.name) or re.search(r"(\d+)\D*$", path.name)
    if told is None:
        raise Refused("has no rank in its name; name it as torch does, ending in the rank's number")
    rank = int(told[1])
    strange = next((one for one in groups.values() if one.ranks and rank not in one.ranks), None)
    if strange is not None:
        raise Refused(f"is named after rank {rank}, but its group {strange.name} has the ranks {list(strange.ranks)}")
    return rank


def _groups(content: dict[str, Any]) -> dict[str, Group]:
    groups = {}
    config = content.get("pg_config")
    for name, told in config.items() if isinstance(config, dict) else ():
        if isinstance(told, dict):
            ranks = tuple(sorted(int(one) for one in re.findall(r"\d+", str(told.get("ranks", "")))))
            groups[str(name)] = Group(str(name), str(told.get("desc", "")), ranks)
    return groups


def _entry(told: dict[str, Any]) -> Entry:
    p2p = bool(told.get("is_p2p", False))
    group = told.get("process_group")
    name = str(group[0]) if isinstance(group, list | tuple) else str(told["pg_id"])
    seq = told["p2p_seq_id"] if p2p else told["collective_seq_id"] if "collective_seq_id" in told else told["seq_id"]
    return Entry(
        name,
        int(seq),
        str(told["profiling_name"]).partition(":")[2] or str(told["profiling_name"]),
        tuple(map(str, (*(told.get("input_dtypes") or ()), *(told.get("output_dtypes") or ())))),
        tuple(tuple(map(int, size)) for size in (*(told.get("input_sizes") or ()), *(told.get("output_sizes") or ()))),
        str(told["state"]),
        p2p,
    )


def _fill(dump: Dump, content: dict[str, Any]) -> None:
    """Give groups their counters: ``pg_status``, else what the ring's entries show."""
    for entry, told in zip(dump.entries, content["entries"], strict=True):
        group = dump.groups.setdefault(entry.group, Group(entry.group))
        group.p2p = group.p2p or entry.p2p
        if not group.description and isinstance(told.get("process_group"), list | tuple):
            group.description = str(told["process_group"][-1])
    for name, status in _status(dump, content).items():
        group = dump.groups[name]
        group.enqueued, group.completed = (
            status.get("last_enqueued_collective"),
            status.get("last_completed_collective"),
        )
    for group in dump.groups.values():
        if group.enqueued is None or group.completed is None:
            mine = [one for one in dump.entries if one.group == group.name and not one.p2p]
            waiting = [one.seq for one in mine if one.state != "completed"]
            group.enqueued = max((one.seq for one in mine), default=None)
            group.completed = min(waiting) - 1 if waiting else group.enqueued


def _status(dump: Dump, content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return ``pg_status`` by group name.

    It is keyed by a number local to the rank. Entries tell which group that is; for groups without entries, the
    numbers and the names were given out in the same order, which is used when nothing contradicts it.
    """
    status = content.get("pg_status")
    if not isinstance(status, dict):
        return {}
    told = {
        str(one["pg_id"]): entry.group
        for one, entry in zip(content["entries"], dump.entries, strict=True)
        if "pg_id" in one
    }
    ids, names = list(status), list(dump.groups)
    if all(one.isdecimal() for one in (*ids, *names)) and len(ids) == len(names):
        ordered = dict(zip(sorted(ids, key=int), sorted(names, key=int), strict=True))
        if all(ordered.get(number) == name for number, name in told.items()):
            told = ordered
    return {told[number]: one for number, one in status.items() if number in told and isinstance(one, dict)}
