"""What the always-on collector left in a run: session facts and rows, finished or cut off by a kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from .schema import COLLECTED
from .timer_rows import read_rows

Session = dict[str, Any]


def read_sessions(run: Path) -> list[Session]:
    """Return the facts of every collector session, by rank and start; unreadable files are left out."""
    sessions = []
    for file in (run / "sessions").glob("rank=*/*.json"):
        try:
            session = json.loads(file.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(session, dict) and isinstance(session.get("rank"), int):
            sessions.append(session)
    return sorted(sessions, key=lambda one: (one["rank"], one.get("started_ns") or 0, str(one.get("session"))))


def collected(run: Path, name: str, damaged: Callable[[str], object] = str) -> pa.Table:
    """Return every row of a table that the collector writes (``schema.COLLECTED``).

    Args:
        run: The run directory.
        name: Of the table.
        damaged: Called with a sentence for every file that is left out because it cannot be read.
    """
    schema = COLLECTED[name]
    folders = sorted(folder for folder in (run / name).glob("rank=*") if folder.name[5:].isdecimal())
    return pa.concat_tables([schema.empty_table(), *(read_rows(folder, damaged, schema) for folder in folders)])
