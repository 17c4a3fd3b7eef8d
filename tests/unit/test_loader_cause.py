"""Causes of loader waits planted in measured costs, and what their absence gives, worked out by hand."""

from __future__ import annotations

import pytest

from stepscope.analyze.findings.loader_cause import cause_of
from stepscope.analyze.loader_model import Cost, Loader
from stepscope.analyze.whatif import Batch, Measured, predict, simulated
from stepscope.ingest.errors import StepscopeError

MS = 1_000_000
N = 200


def measured(fetch_ms, loader, work_ms=2.0, **columns):
    """A run of one pass in which batch ``k`` took ``fetch_ms(k)``, with columns of lineage told as functions of ``k``."""
    batches = []
    for k in range(N):
        names = ("slowest", "slowest_ns", "collate_ns", "runq_ns", "read_bytes", "worker", "cores", "storage_ns")
        row = {name: columns[name](k) if name in columns else None for name in names}
        row["fetch_ns"] = round(fetch_ms(k) * MS)
        cost = Cost(row["fetch_ns"], row["cores"] or 0.0)
        batches.append(Batch(cost, row["storage_ns"] or 0, Cost(work_ms * MS), row))
    replayed = simulated([batches], loader)
    return Measured(0, loader, [batches], replayed.step_ns, replayed)


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
    found = cause_of(measured(lambda k: 6, Loader(1, cores=1), cores=lambda k: 1.0))
    assert found.name == "cpu_bound"


def test_slow_samples():
    # One batch in 20 takes 60 ms more; a worker of 1 ms a batch is hidden behind 2 ms of work otherwise.
    def slow(k):
        return 60 * (k % 20 == 19)

    found = cause_of(
        measured(
            lambda k: 1 + slow(k),
            Loader(1),
            slowest=lambda k: str(k * 4),
            slowest_ns=lambda k: (0.25 + slow(k)) * MS,
        )
    )
    assert found.name == "slow_samples"
    assert "10 of 200 batches" in found.sentence
    # The slow batch is begun when the loop gets the one before the last: two steps of 2 ms hide it, 57 of 61 ms are
    # waited. Of the 200 requests the first two are no steady part; the last slow batch comes after the last request.
    assert found.lost_ns == pytest.approx(9 * 57 * MS / 197, rel=1e-6)


def test_one_slow_worker():
    # Worker 1 takes 12 ms for every second batch, the other 2.
    found = cause_of(measured(lambda k: 12 if k % 2 else 2, Loader(2), worker=lambda k: k % 2))
    assert found.name == "slow_worker"
    assert "Worker 1" in found.sentence
    # A pair of batches takes 12 ms instead of 4, so a step 6 instead of 2.
    assert found.lost_ns == pytest.approx(4 * MS, rel=0.05)


def test_storage():
    found = cause_of(
        measured(lambda k: 8, Loader(1), read_bytes=lambda k: 4 * MS, storage_ns=lambda k: 7 * MS, runq_ns=lambda k: 0)
    )
    assert found.name == "storage"
    assert "4.0 MB a batch" in found.sentence
    assert found.lost_ns == pytest.approx(6 * MS, rel=0.02)


def test_collate():
    found = cause_of(measured(lambda k: 8, Loader(1), collate_ns=lambda k: 7 * MS))
    assert found.name == "collate"
    assert found.lost_ns == pytest.approx(6 * MS, rel=0.02)


def test_handing_over():
    found = cause_of(measured(lambda k: 1, Loader(4, take_ns=5 * MS)))
    assert found.name == "handing_over"
    assert found.lost_ns == pytest.approx(5 * MS, rel=0.02)


def test_caches_and_storage_change_what_they_can():
    run = measured(lambda k: 8, Loader(1), work_ms=1, cores=lambda k: 0.25, storage_ns=lambda k: 6 * MS)
    # 2 of 8 ms need a core. Storage twice as fast: 8 - 3; raw bytes cached: 8 - 6; samples cached: the work is left.
    assert predict(run, storage_speed=2).step_ns == pytest.approx(5 * MS, rel=0.02)
    assert predict(run, cache_hit=1).step_ns == pytest.approx(2 * MS, rel=0.02)
    assert predict(run, cache_hit=0.5).step_ns == pytest.approx(5 * MS, rel=0.02)
    assert predict(run, cache_hit=1, cache="samples").step_ns == pytest.approx(1 * MS, rel=0.02)
    for batch in run.passes[0]:
        object.__setattr__(batch, "storage_ns", None)
    with pytest.raises(StepscopeError, match="does not tell"):
        predict(run, storage_speed=2)
