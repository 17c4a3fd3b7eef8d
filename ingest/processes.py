"""Whether a process of this host still lives."""

from __future__ import annotations

import os
from pathlib import Path


def alive(pid: int) -> bool:
    """Tell whether there is a process ``pid`` that has not ended; one that nobody has buried yet has."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except (OSError, IndexError):  # somebody else's process, or a system without /proc
        return True
    return state != "Z"
