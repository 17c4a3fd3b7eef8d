"""The memory profiler's raw timeline (``export_memory_timeline`` to ``*.raw.json.gz``): changes of live bytes by category.

A list of [time in ns, action, bytes (signed), category]; time -1 is what was there before. A tensor that changes its
category leaves the one and enters the other.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .text import Refused

# In the order of PyTorch's own numbers; the last one is its "no category".
CATEGORIES = ("parameter", "optimizer", "input", "temporary", "activation", "gradient", "detail", "unknown")
START = re.compile(rb"\s*\[\s*\[\s*-?\d+\s*,\s*\d\s*,\s*-?\d+\s*,\s*\d\s*\]")


@dataclass(frozen=True)
class Timeline:
    """The changes, in order; ``before`` are bytes by category from before the recording."""

    t_ns: npt.NDArray[np.int64]
    change: npt.NDArray[np.int64]
    category: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]


def read_timeline(text: bytes) -> Timeline:
    """Read a raw timeline.

    Raises:
        Refused: It is none, or of a version whose categories are not known.
    """
    try:
        rows = np.array(json.loads(text), dtype=np.int64)
    except (ValueError, OverflowError, RecursionError) as error:
        raise Refused(f"is no whole memory timeline ({error})") from error
    if rows.ndim != 2 or rows.shape[1] != 4 or not np.isin(rows[:, 3], range(len(CATEGORIES))).all():
        raise Refused("is a memory timeline of a shape that is not known")
    early = rows[:, 0] < 0
    before = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(before, rows[early, 3], rows[early, 2])
    t_ns, _, change, category = rows[~early].T
    return Timeline(t_ns, change, category, before)
