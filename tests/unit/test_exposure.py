"""Exposed communication told apart into transfer, wait and what cannot be told: by hand, and as a property."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.exposure import Collectives, Windows, tell_apart
from stepscope.api import open_run
from stepscope.pipeline import ingest

from ..support import kineto
from ..support.kineto import launch, span, step


def numbers(*values):
    return np.array(values, np.int64)


def windows(*pairs):
    return Windows(*(numbers(*side) for side in zip(*pairs, strict=True)))


def collectives(*rows):
    return Collectives(*(numbers(*side) for side in zip(*rows, strict=True)))


def test_a_collective_waits_until_the_last_has_arrived():
    """[10, 60) waits until 40; compute hides [10, 20) and [50, 55); the step ends at 58."""
    parts = tell_apart(collectives((10, 60, 30)), windows((20, 50), (55, 60)), windows((0, 58), (58, 100)))
    assert parts.wait.tolist() == [20, 0]
    assert parts.transfer.tolist() == [10 + 3, 2]
    assert parts.rest.tolist() == [0, 0]
    assert parts.exposed_wait.tolist() == [20]


def test_of_two_at_once_the_one_that_moves_bytes_counts():
    """[0, 100) waits until 80; [50, 70) moves bytes from its start."""
    parts = tell_apart(collectives((0, 100, 80), (50, 70, 0)), windows((0, 100)), windows((0, 100)))
    assert (parts.wait[0], parts.transfer[0], parts.rest[0]) == (60, 40, 0)
    assert parts.exposed_wait.tolist() == [80, 0]


def test_what_no_wait_is_known_of_is_neither():
    """[0, 100) waits until 80; of [50, 90) nothing is known, and it may move bytes until 80."""
    parts = tell_apart(collectives((0, 100, 80), (50, 90, -1)), windows((0, 100)), windows((0, 100)))
    assert (parts.wait[0], parts.transfer[0], parts.rest[0]) == (50, 20, 30)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 50), st.integers(-1, 60)), min_size=1),
    st.lists(st.integers(0, 300), unique=True, min_size=2),
)
def test_the_parts_are_those_of_every_single_moment(spans, cuts):
    """The same answer, one nanosecond at a time."""
    spans = [(start, start + length, min(wait, length)) for start, length, wait in spans]
    cuts = sorted(cuts)[: len(cuts) // 2 * 2]
    hidden = {moment for start, end in zip(cuts[::2], cuts[1::2], strict=True) for moment in range(start, end)}

    def exposed_at(moment):
        return moment not in hidden and any(start <= moment < end for start, end, _ in spans)

    def part(moment):
        active = [(start, wait) for start, end, wait in spans if start <= moment < end]
        if any(wait >= 0 and moment >= start + wait for start, wait in active):
            return "transfer"
        return "rest" if any(wait < 0 for _, wait in active) else "wait"

    exposed = [moment for moment in range(300) if exposed_at(moment)]
    told = tell_apart(
        collectives(*spans),
        windows(*((m, m + 1) for m in exposed)) if exposed else Windows(*[numbers()] * 2),
        windows((0, 150), (150, 400)),
    )
    for name in ("transfer", "wait", "rest"):
        moments = [moment for moment in exposed if part(moment) == name]
        assert getattr(told, name).tolist() == [sum(m < 150 for m in moments), sum(m >= 150 for m in moments)]
    for (start, _, wait), alone in zip(spans, told.exposed_wait.tolist(), strict=True):
        assert alone == sum(start <= moment < start + max(wait, 0) for moment in exposed)


def test_the_ledger_of_two_ranks(tmp_path):
    """Rank 1 arrives 390 µs later; a broadcast after it makes nobody meet, so it stays untold."""

    def events(kernel):
        found = []
        for at in range(3):
            start = 1000.0 * at
            found += [
                step(at, start, 1000),
                *launch(10 * at + 1, start, start + 3, kernel),
                *launch(10 * at + 2, start + 5, start + 3 + kernel, 893 - kernel, "ncclDevKernel_AllReduce", stream=9),
                *launch(10 * at + 3, start + 6, start + 900, 50, "ncclDevKernel_Broadcast", stream=9),
                span("cpu_op", "aten::relu", start + 960, 5),
            ]
        return found

    for rank, kernel in enumerate((500, 890)):
        kineto.write(tmp_path / "t" / f"rank{rank}.json", events(kernel), rank=rank, world_size=2)
    ingest(str(tmp_path / "t"), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        query = "select rank, category, ns from ledger where step = 1 and category like '%comm%' order by all"
        assert run.sql(query).fetchall() == [
            (0, "comm_transfer", 3_000),
            (0, "comm_wait", 390_000),
            (0, "exposed_comm", 50_000),
            (1, "comm_transfer", 3_000),
            (1, "comm_wait", 0),
            (1, "exposed_comm", 50_000),
        ]
        assert run.invariants().set_index("name").holds["ledger_closes"]
        one = run.findings().iloc[0]
        assert (one.kind, one.lost_ns_per_step) == ("exposed_communication", 53_000)
