"""The allocator's events of a trace as memory of its devices: who allocated what was alive, in which phase.

A block's label is the innermost operator around its allocation; its category follows from the phase it was allocated
in and the phase it was freed in (``_category``). A trace tells nothing about blocks from before the window but, on
accelerators, their sum.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..ingest.capture import Capture, sql
from .enclosing import NONE, Around, around
from .memory_tables import BEFORE, Label, Memory, of_blocks
from .replay import Ints, Replay, replay

PHASES = ("", "forward", "input", "optimizer", "backward")  # by number, as capture_memory_spans tells them
_KEPT, _UNSEEN = len(PHASES), NONE  # instead of a phase: not freed in the window; not allocated in it
_NO_STEP = -1
_ACCUMULATE = "torch::autograd::AccumulateGrad"
BATCH_ROWS = 65_536


def trace_memory(capture: Capture, events: pa.Table) -> list[Memory]:
    """Return the memory of a capture's devices.

    Args:
        capture: The capture.
        events: Its allocator events, as ``capture_memory`` has them.
    """
    events = events.filter(pa.compute.and_(events["address"].is_valid(), events["size"].is_valid()))
    if not len(events):
        return []
    found = around(capture.con.sql(sql("capture_memory_spans", __package__)).to_arrow_reader(BATCH_ROWS))
    callers = Callers(capture, found, events)
    device = events["device"].combine_chunks().dictionary_encode()
    codes, names = device.indices.to_numpy(), device.dictionary.to_pylist()
    return [_device(name, events, np.flatnonzero(codes == names.index(name)), callers) for name in sorted(names)]


class Callers:
    """Of each allocator event: the phase and the step it happened in, the number of the place and of the module."""

    def __init__(self, capture: Capture, found: Around, events: pa.Table) -> None:
        event_id = events["event_id"].to_numpy()
        at = np.minimum(np.searchsorted(found.event_id, event_id), max(len(found.event_id) - 1, 0))
        told = found.event_id[at] == event_id if len(found.event_id) else np.zeros(len(event_id), bool)
        self.phase = np.where(told, found.phase[at], 0)
        self.step = events["step"].fill_null(_NO_STEP).to_numpy()
        self.places, self.place = _names(capture, "places", np.where(told, found.span[at], NONE))
        self.modules, self.module = _names(capture, "modules", np.where(told, found.module[at], NONE))


def _names(capture: Capture, what: str, span: Ints) -> tuple[list[str], Ints]:
    """Return the different names of spans, and for each span the number of its name."""
    ids, of = np.unique(span, return_inverse=True)
    capture.con.register("spans_wanted", pa.table({"event_id": ids}))
    rows = capture.con.sql(sql(f"capture_memory_{what}", __package__)).to_arrow_table()
    capture.con.unregister("spans_wanted")
    names = rows["name"].combine_chunks().dictionary_encode()
    return names.dictionary.to_pylist(), names.indices.to_numpy()[of]


def _device(name: str, events: pa.Table, mine: Ints, callers: Callers) -> Memory:
    size, t_ns = (events[column].to_numpy()[mine] for column in ("size", "t_ns"))
    lives = replay(np.sign(size).tolist(), events["addr"].take(mine).to_pylist(), abs(size).tolist())
    number, labels = _labels(lives, mine, callers)
    total = events["allocated"][int(mine[0])].as_py()
    rest = max(total - int(lives.live()[1]), 0) if total is not None else 0
    memory = of_blocks(name, lives, number, labels, np.append(t_ns[:1], t_ns), rest)
    step = callers.step[mine]
    memory.step = np.append(step[:1], step)
    return memory


def _labels(lives: Replay, mine: Ints, callers: Callers) -> tuple[Ints, list[Label]]:
    """Return the number of each block's label, and the labels."""
    seen, freed = lives.born >= 0, lives.died < lives.n
    born, died = mine[np.where(seen, lives.born, 0)], mine[np.where(freed, lives.died, 0)]
    came = np.where(seen, callers.phase[born], _UNSEEN)
    went = np.where(freed, callers.phase[died], _KEPT)
    told = (came, went, callers.place[born], callers.module[born], callers.step[born])
    lows = [int(column.min()) for column in told]
    shape = [int(column.max()) - low + 1 for column, low in zip(told, lows, strict=True)]
    keys = np.ravel_multi_index([column - low for column, low in zip(told, lows, strict=True)], shape)
    kinds, of = np.unique(keys, return_inverse=True)
    parts = [(part + low).tolist() for part, low in zip(np.unravel_index(kinds, shape), lows, strict=True)]
    labels: dict[Label, int] = {}
    numbers = [labels.setdefault(_label(callers, *kind), len(labels)) for kind in zip(*parts, strict=True)]
    return np.array(numbers, np.int64)[of], list(labels)


def _label(callers: Callers, came: int, went: int, place: int, module: int, step: int) -> Label:
    if came == _UNSEEN:
        return BEFORE
    phase, name = PHASES[came], callers.places[place]
    category = _category(phase, None if went == _KEPT else PHASES[went], name)
    return Label(category, phase, name, "", callers.modules[module], None if step == _NO_STEP else step)


def _category(phase: str, freed: str | None, place: str) -> str:
    """Return what a block was: by the phase it came in and the one it went in (None: not in the window)."""
    if phase == "input":
        return "input"
    if phase == "optimizer":
        return "optimizer" if freed is None else "temporary"
    if phase == "backward":
        return (
            "gradient" if freed == "optimizer" or place == _ACCUMULATE else "temporary" if freed == phase else "unknown"
        )
    if phase == "forward":
        return {"backward": "activation", "forward": "temporary"}.get(freed or "", "unknown")
    return "unknown"
