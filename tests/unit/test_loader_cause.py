"""Causes of loader waits planted in measured costs, and what their absence gives, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analyze.findings.loader_cause import cause_of
from stepscope.analyze.loader_costs import _COLUMNS, Recorded
from stepscope.analyze.loader_model import Batch, Cost, Loader
from stepscope.analyze.whatif import Measured, predict, simulated
from stepscope.ingest.errors import StepscopeError

MS = 1_000_000
N = 200


def measured(fetch_ms, loader, work_ms=2.0, cores=0.0, pickle_ms=0.0, **columns):
    """A run of one pass in which batch ``k`` took ``fetch_ms(k)``, with columns of lineage told as functions of ``k``."""
    rows, batches = [], []
    for k in range(N):
        row = {name: columns[name](k) if name in columns else None for name in _COLUMNS}
        row["fetch_ns"] = round(fetch_ms(k) * MS)
        row["cpu_ns"] = round(row["fetch_ns"] * cores)
        rows.append(row)
        batches.append(Batch(Cost(row["fetch_ns"], cores), Cost(work_ms * MS), Cost(pickle_ms * MS, 1.0)))
    replayed = simulated([batches], loader)
    return Measured(Recorded(0, [rows], replayed.step_ns, loader.cores), loader, [batches], replayed)


def test_no_workers():
    # 6 ms of fetch and 2 of work in turn; three workers deliver every 2 ms, so the step is the work.
    found = cause_of(measured(lambda k: 6, Loader(0)))
    assert found.name == "no_workers"
    assert "num_workers=3" in found.advice
    assert found.lost_ns == pytest.approx(6 * MS, rel=0.02)


def test_too_few_workers():
    # One worker: a step every 6 ms, of which 4 are waited.
    found = cause_of(measured(lambda k: 6, Loader(1)))
    assert found.name == "too_few_workers"
    assert "num_workers=3" in found.advice
    assert found.lost_ns == pytest.approx(4 * MS, rel=0.02)


def test_cores_that_more_workers_do_not_add():
    # One core for 6 ms of fetch a batch: a step takes them; without them it takes the loop's 2.
    found = cause_of(measured(lambda k: 6, Loader(1, cores=1), cores=1.0))
    assert found.name == "cpu_bound"
    assert found.lost_ns == pytest.approx(4 * MS, rel=0.02)


def test_slow_samples():
    # One batch in 20 takes 60 ms more; a worker of 1 ms a batch is hidden behind 2 ms of work otherwise.
    def slow(k):
        return 60 * (k % 20 == 19)

    found = cause_of(
        measured(
            lambda k: 1 + slow(k),
            Loader(1),
            slowest=lambda k: str(k * 4),
            slowest_path=lambda k: f"data/{k}.jpg" if k == 19 else None,
            slowest_ns=lambda k: (0.25 + slow(k) + (k == 19)) * MS,
        )
    )
    assert found.name == "slow_samples"
    assert "10 of 200 batches" in found.sentence
    assert "index 76 data/19.jpg, 156" in found.sentence
    # The slow batch is begun when the loop gets the one before the last: two steps of 2 ms hide it, 57 of 61 ms are
    # waited. The steady requests are those from the third to the third last.
    assert found.lost_ns == pytest.approx(9 * 57 * MS / 195, rel=1e-6)


def test_one_slow_worker():
    # Worker 1 takes 12 ms for every second batch, the other 2.
    found = cause_of(measured(lambda k: 12 if k % 2 else 2, Loader(2), worker=lambda k: k % 2))
    assert found.name == "slow_worker"
    assert "Worker 1" in found.sentence
    # A pair of batches takes 12 ms instead of 4, so a step 6 instead of 2.
    assert found.lost_ns == pytest.approx(4 * MS, rel=0.05)


def test_storage():
    found = cause_of(measured(lambda k: 8, Loader(1), read_bytes=lambda k: 4 * MS, blocked_ns=lambda k: 7 * MS))
    assert found.name == "storage"
    assert "4.0 MB a batch" in found.sentence
    assert found.lost_ns == pytest.approx(6 * MS, rel=0.02)


def test_collate():
    found = cause_of(measured(lambda k: 8, Loader(1), collate_ns=lambda k: 7 * MS))
    assert found.name == "collate"
    assert found.lost_ns == pytest.approx(6 * MS, rel=0.02)


def test_handing_over():
    # 5 ms to unpickle before each 2 ms of work; without workers a step would take 1 + 2.
    run = measured(
        lambda k: 1,
        Loader(4, load=Cost(5 * MS), load_busy=Cost(5 * MS)),
        pickle_ms=1.0,
        pickle_ns=lambda k: MS,
        arrived_ns=lambda k: 0,
        loaded_ns=lambda k: 5 * MS,
    )
    found = cause_of(run)
    assert found.name == "handing_over"
    assert "1.00 ms to pickle and 5.00 ms to unpickle" in found.sentence
    assert "num_workers=0" in found.advice
    assert "3.00 ms a step" in found.advice
    assert found.lost_ns == pytest.approx(5 * MS, rel=0.02)


def test_starved_of_cores():
    # Four workers and one core: 6 ms of CPU a batch take 24 in each worker, of which 18 are spent waiting for the core.
    alone = measured(lambda k: 6, Loader(4, cores=1), cores=1.0, runq_ns=lambda k: 18 * MS)
    rows = [{**row, "fetch_ns": 24 * MS} for row in alone.told.rows]
    found = cause_of(replace(alone, told=replace(alone.told, passes=[rows])))
    assert found.name == "starved_of_cores"
    assert "18.0 ms a batch" in found.sentence
    # A core for each: a batch every 1.5 ms, so the step is the work; with one it takes 6.
    assert found.lost_ns == pytest.approx(4 * MS, rel=0.02)


def test_caches_and_storage_change_what_they_can():
    run = measured(
        lambda k: 8, Loader(1), work_ms=1, cores=0.25, blocked_ns=lambda k: 6 * MS, read_bytes=lambda k: 4096
    )
    # 2 of 8 ms need a core. Storage twice as fast: 8 - 3; raw bytes cached: 8 - 6; samples cached: the work is left.
    assert predict(run, storage_speed=2).step_ns == pytest.approx(5 * MS, rel=0.02)
    assert predict(run, cache_hit=1).step_ns == pytest.approx(2 * MS, rel=0.02)
    assert predict(run, cache_hit=0.5).step_ns == pytest.approx(5 * MS, rel=0.02)
    assert predict(run, cache_hit=1, cache="samples").step_ns == pytest.approx(1 * MS, rel=0.02)
    unknown = [{**row, "read_bytes": None} for row in run.told.rows]
    with pytest.raises(StepscopeError, match="does not tell"):
        predict(replace(run, told=replace(run.told, passes=[unknown])), storage_speed=2)
