"""What the always-on collector left in a run: session facts and timer rows, finished or cut off by a kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from .schema import TIMER
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


def timer_files(run: Path, damaged: Callable[[str], object]) -> pa.Table:
    """Return every timer row of a run; ``damaged`` is called with a sentence for every file that is left out."""
    folders = sorted(folder for folder in (run / "timer").glob("rank=*") if folder.name[5:].isdecimal())
    return pa.concat_tables([TIMER.empty_table(), *(read_rows(folder, damaged) for folder in folders)])
