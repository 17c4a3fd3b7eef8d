"""ORACLES A: steps of the two resnet50 traces, exact in microseconds, split by the generic sweep."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analyze.lanes import intervals
from stepscope.analyze.sweep import Totals, sweep

ORDER = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU")
LANES_SQL = """
    select start_ns, start_ns + dur_ns as end_ns, case
        when kind = 'kernel' then case class when 'communication' then 8 else 1 end
        when kind = 'copy' then 2 when kind = 'memset' then 4 when kind = 'runtime' then 16
        when kind = 'dataloader' then 32 else 64 end as lanes
    from events where dur_ns > 0 and kind in ('kernel', 'copy', 'memset', 'runtime', 'dataloader', 'operator', 'annotation')
    order by start_ns
"""
# step: Kernel, Memcpy, Memset, Runtime, DataLoader, CPU, Other, Total
EXACT = {
    "num_workers_0": {
        5: (98598, 1941, 90, 2796, 69317, 14091, 1115, 187948),
        6: (98570, 1947, 89, 2762, 57669, 12968, 1148, 175153),
        7: (98596, 1931, 91, 2877, 61257, 13768, 1213, 179733),
        8: (98623, 1938, 89, 2841, 56453, 13420, 1200, 174564),
        9: (98504, 1937, 87, 2788, 62690, 15025, 1141, 182172),
        10: (98641, 1798, 88, 3381, 48185, 12773, 1117, 165983),
    },
    "num_workers_4": {
        5: (99778, 3606, 98, 41028, 4341, 27460, 5995, 182306),
        6: (99208, 2948, 98, 3406, 0, 16404, 4119, 126183),
        7: (99114, 2949, 98, 3417, 6, 19521, 2076, 127181),
        8: (99021, 2975, 97, 3544, 0, 15464, 1978, 123079),
        9: (98791, 3596, 97, 8275, 1370, 43905, 7427, 163461),
        10: (98956, 2885, 98, 3714, 1400, 13235, 3910, 124198),
    },
}


@pytest.fixture
def resnet(shared_run):
    return lambda workers: shared_run(f"kineto-resnet50/{workers}/*.json.gz")


@pytest.mark.parametrize("workers", EXACT)
def test_breakdown_by_the_oracles_order(resnet, workers):
    run = resnet(workers)
    steps = run.sql("select label, start_ns, end_ns from steps order by start_ns").fetchall()
    totals = Totals(np.array([start for _, start, _ in steps]), np.array([end for *_, end in steps]))
    for segments in sweep(intervals(run.con, LANES_SQL), len(ORDER)):
        totals.add(segments)
    found = {}
    for at, (label, start, end) in enumerate(steps):
        split = [ns / 1000 for ns in totals.by_priority(at, len(ORDER))]
        assert split.pop(ORDER.index("Communication")) == 0
        found[int(label.split("#")[1])] = (*split, (end - start) / 1000)
    assert found == EXACT[workers]


def test_steps_are_numbered_from_zero_and_keep_their_labels(resnet):
    rows = resnet("num_workers_0").sql("select step, label, complete from steps order by step").fetchall()
    assert rows == [(at, f"ProfilerStep#{at + 5}", True) for at in range(6)]


def test_the_ledger_agrees_where_the_orders_agree(resnet):
    """Compute and the loader's share do not depend on the order of what comes after them."""
    rows = resnet("num_workers_0").sql(
        "select step, sum(ns) filter (category = 'compute'), sum(ns) filter (category = 'data_wait') from ledger "
        "group by step order by step"
    )
    for (step, compute, wait), (kernel, _, memset, _, loader, *_) in zip(
        rows.fetchall(), EXACT["num_workers_0"].values(), strict=True
    ):
        # Runtime calls take 12 us that the loader would have had in none of these steps, so the loader's share is equal.
        assert compute == (kernel + memset) * 1000, step
        assert wait >= loader * 1000, step


def test_waits_in_the_raw_window(resnet):
    waits, exposed = resnet("num_workers_0").sql("select sum(wait_ns), sum(exposed_ns) from batches").fetchall()[0]
    assert waits == 415_791_000
    assert exposed == 355_571_000


def test_verdict_without_workers_is_input_bound(resnet):
    run = resnet("num_workers_0")
    first = run.findings().iloc[0]
    assert first.kind == "loader_bound"
    assert first.lost_ns_per_step == pytest.approx(59_262_000, rel=0.001)
    assert first.share == pytest.approx(0.3337, abs=0.0001)
    assert "Input-bound" in run.verdict()
    assert run.sql("select avg(dur_ns) from steps").fetchall()[0][0] == pytest.approx(177_592_000, abs=1000)


def test_with_workers_there_is_no_data_loading_finding(resnet):
    run = resnet("num_workers_4")
    assert "loader_bound" not in set(run.findings().kind)
    wait, step = run.sql(
        "select (select avg(ns) from ledger where category = 'data_wait'), (select avg(dur_ns) from steps)"
    ).fetchall()[0]
    assert step == pytest.approx(141_068_000, abs=1000)
    assert wait / step == pytest.approx(0.0084, abs=0.0001)


def test_gpu_utilisation_and_the_dearest_operator(resnet):
    run = resnet("num_workers_0")
    window = run.sql("select max(dur_ns) from events where name = 'PyTorch Profiler (0)'").fetchall()[0][0]
    kernels = run.sql("select sum(sum_ns) from kernels").fetchall()[0][0]
    assert kernels / window == pytest.approx(0.5551, abs=0.0001)
    calls, device, host = run.sql(
        "select calls, device_ns, host_self_ns from operators where name = 'cudnn_convolution_backward_weight'"
        " or name = 'aten::cudnn_convolution_backward_weight'"
    ).fetchall()[0]
    assert (calls, device // 1000) == (318, 142_461)
    assert host / 1000 == pytest.approx(22_804, rel=0.01)
