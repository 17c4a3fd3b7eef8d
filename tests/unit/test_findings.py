"""Findings on hand-made traces: the planted fault is named first, its cost is right, and nothing else is."""

from __future__ import annotations

import json

import pytest

from stepscope.analyze.findings.finding import ms
from stepscope.analyze.findings.straggler import by_chance
from stepscope.api import open_run
from stepscope.pipeline import ingest

from ..support import kineto
from ..support.kineto import launch, loader, span, step


@pytest.fixture
def found(tmp_path):
    """Return a function from the events of each rank to the run's findings."""

    def find(*ranks):
        for rank, events in enumerate(ranks):
            kineto.write(tmp_path / "t" / f"rank{rank}.json", events, rank=rank, world_size=len(ranks))
        ingest(str(tmp_path / "t"), tmp_path / "run")
        with open_run(tmp_path / "run") as run:
            findings = run.findings()
            for one in findings.itertuples():  # every finding's evidence runs, and gives the rows it shows
                rows = run.sql(one.evidence_sql).fetchall()[:20]
                assert len(rows) == len(json.loads(one.evidence_rows))
            return findings

    return find


def steps_of(per_step, count=5):
    """Return ``count`` steps of 1000 µs; ``per_step(start, correlation)`` gives what happens in one."""
    events = []
    for at in range(count):
        start = 1000.0 + 1000 * at
        events += [step(at, start, 1000), *per_step(start, 100 * (at + 1))]
    return events


def full(start, correlation):
    return launch(correlation, start, start + 3, 995)


def test_nothing(found):
    assert found(steps_of(full)).kind.tolist() == ["nothing_wrong"]


def test_a_slow_loader(found):
    one = found(steps_of(lambda start, at: [loader(start, 300), *launch(at, start + 300, start + 303, 695)])).iloc[0]
    assert (one.kind, one.lost_ns_per_step, one.confidence) == ("loader_bound", 300_000, "high")
    assert one.share == pytest.approx(0.3)
    assert "num_workers" in one.advice


def test_a_loader_hidden_by_the_device_is_no_finding(found):
    """The call takes 300 of 1000 µs, but the kernel of the step before runs meanwhile."""
    events = []
    for at in range(5):
        start = 1000.0 + 1000 * at
        events += [step(at, start, 1000), loader(start + 10, 300), *launch(at + 1, start + 1, start + 3, 996)]
    assert found(events).kind.tolist() == ["nothing_wrong"]


def test_exposed_communication_of_every_rank(found):
    def per_step(start, at):
        return [
            *launch(at, start, start + 3, 800),
            *launch(at + 1, start + 5, start + 803, 195, "ncclDevKernel_AllReduce", stream=9),
        ]

    one = found(steps_of(per_step), steps_of(per_step)).iloc[0]
    assert (one.kind, one.lost_ns_per_step) == ("exposed_communication", 195_000)


def test_one_late_rank_is_the_straggler_and_not_the_network(found):
    def waits(start, at):
        return [
            *launch(at, start, start + 3, 600),
            *launch(at + 1, start + 5, start + 603, 395, "ncclDevKernel_AllReduce", stream=9),
        ]

    def late(start, at):
        return [
            *launch(at, start, start + 3, 990),
            *launch(at + 1, start + 5, start + 993, 5, "ncclDevKernel_AllReduce", stream=9),
        ]

    findings = found(steps_of(waits, 12), steps_of(late, 12))
    assert findings.kind.tolist() == ["straggler"]
    assert (findings.iloc[0]["rank"], findings.iloc[0].lost_ns_per_step) == (1, 390_000)


def test_exposed_pageable_copies(found):
    def per_step(start, at):
        copy = span("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", start + 3, 200, correlation=at, bytes=4096)
        return [
            span("cuda_runtime", "cudaMemcpyAsync", start, 3, correlation=at),
            copy,
            *launch(at + 1, start + 4, start + 203, 795),
        ]

    one = found(steps_of(per_step)).iloc[0]
    assert (one.kind, one.lost_ns_per_step) == ("exposed_copy", 200_000)
    assert "pin_memory" in one.advice


def test_launch_bound(found):
    def per_step(start, at):
        calls = [span("cpu_op", "aten::mm", start + 100 * k, 100) for k in range(9)]
        return [*calls, *launch(at, start + 10, start + 20, 480)]

    one = found(steps_of(per_step)).iloc[0]
    assert one.kind == "host_bound"
    assert one.lost_ns_per_step == 420_000  # operators over [0, 900) less the kernel's 480


def test_synchronising_and_allocating(found):
    def per_step(start, at):
        return [
            *launch(at, start, start + 3, 600),
            span("cuda_runtime", "cudaStreamSynchronize", start + 10, 790),
            span("cuda_runtime", "cudaMalloc", start + 800, 195),
        ]

    findings = found(steps_of(per_step)).set_index("kind").lost_ns_per_step
    assert findings["host_sync"] == 197_000  # [603, 800)
    assert findings["allocator_stall"] == 195_000


def test_one_hiccup_is_no_finding(found):
    events = steps_of(full, 9)
    events += [step(9, 10_000, 1000), *launch(9999, 10_000, 10_803, 195)]  # a tenth step idles for 800 µs
    assert found(events).kind.tolist() == ["nothing_wrong"]


def test_unexplained_idle_time_says_that_the_loader_was_not_seen(found):
    one = found(steps_of(lambda start, at: launch(at, start, start + 3, 500))).iloc[0]
    assert one.kind == "idle_unexplained"
    assert "loader was not" in one.sentence


def test_a_short_trace_says_so(found):
    assert "too_short" in found(steps_of(full, 2)).kind.tolist()
    assert "too_short" in found([span("cpu_op", "aten::mm", 1000, 500)]).kind.tolist()


def test_memory_near_its_limit(found):
    used = {"Device Type": 1, "Device Id": 0, "Bytes": 64, "Addr": 1 << 63, "Total Allocated": 900 << 20}
    instant = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1500}
    events = [*steps_of(full), {**instant, "args": {**used, "Total Reserved": 1000 << 20}}]  # of 1 GiB
    findings = found(events).set_index("kind")
    assert "1000 MiB" in findings.sentence["memory_limit"]
    assert "1.00 GiB" in findings.sentence["memory_limit"]


def test_chance_by_hand():
    """Two ranks, three steps: some rank is last in all three with probability 2/8."""
    assert by_chance(3, 3, 2) == pytest.approx(0.25)
    assert by_chance(12, 12, 2) == pytest.approx(2 / 4096)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (999_600, "1.00 ms"),
        (9_996_000, "10.0 ms"),
        (99_960_000, "100 ms"),
        (999_400, "999 µs"),
        (1_234, "1.23 µs"),
        (999, "999 ns"),
        (0, "0 ns"),
    ],
)
def test_times_in_sentences_have_three_digits(ns, text):
    assert ms(ns) == text


def test_copies_with_an_odd_size_are_judged(found):
    def per_step(start, at):
        copy = span("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", start + 3, 300, correlation=at, bytes="many")
        return [
            span("cuda_runtime", "cudaMemcpyAsync", start, 2, correlation=at),
            copy,
            *launch(at + 1, start + 303, start + 306, 690),
        ]

    findings = found(steps_of(per_step))
    one = findings[findings.kind == "exposed_copy"].iloc[0]
    assert one.sentence.endswith("of all copies Memcpy HtoD (Pageable -> Device) take longest.")
    assert "pin_memory" in one.advice


def test_unexplained_time_names_the_ranks_that_differ(found):
    """Rank 0 has nothing for 100 of 1000 µs a step, rank 1 for 400."""
    most, least = (steps_of(lambda start, at, busy=busy: launch(at, start, start + 2, busy)) for busy in (598, 898))
    sentences = found(least, most).set_index("kind").sentence
    assert "(rank 1 most: 400 µs; rank 0 least: 100 µs)" in sentences["idle_unexplained"]
