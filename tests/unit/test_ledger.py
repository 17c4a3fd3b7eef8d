"""The ledger and its neighbours on hand-made traces: every number worked out by hand, in µs of the trace."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.api import open_run
from stepscope.pipeline import ingest

from ..support import kineto
from ..support.kineto import BASE_NS, launch, loader, span, step


@pytest.fixture
def run_of(tmp_path):
    opened = []

    def make(events, name="rank0.json", **header):
        trace = kineto.write(tmp_path / f"{len(opened)}" / name, events, **header)
        out = tmp_path / f"run{len(opened)}"
        ingest(str(trace), out)
        opened.append(open_run(out))
        return opened[-1]

    yield make
    for run in opened:
        run.close()


def ledger(run):
    return {
        (at, category): ns
        for at, category, ns in run.sql("select step, category, ns from ledger order by all").fetchall()
    }


def test_one_step_by_hand(run_of):
    """[0, 100) loader; 110 launch; kernel [120, 220); nccl [200, 260); copy [255, 290); sync call [290, 330); step ends 400."""
    events = [
        step(7, 1000, 400),
        loader(1000, 100),
        span("cpu_op", "aten::mm", 1105, 20),
        *launch(1, 1110, 1120, 100),
        *launch(2, 1130, 1200, 60, "ncclDevKernel_AllReduce_Sum", stream=20),
        span("cuda_runtime", "cudaMemcpyAsync", 1140, 5, correlation=3),
        span("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 1255, 35, correlation=3, bytes=100),
        span("cuda_runtime", "cudaStreamSynchronize", 1150, 180),
    ]
    assert ledger(run_of(events)) == {
        (0, "compute"): 100_000,
        (0, "exposed_comm"): 40_000,  # [220, 260)
        (0, "exposed_copy"): 30_000,  # [260, 290)
        (0, "unclassified"): 0,
        (0, "data_wait"): 100_000,
        (0, "sync"): 40_000,  # [290, 330)
        (0, "allocator"): 0,
        (0, "host"): 15_000,  # the operator and the launch inside it, [105, 120)
        (0, "unexplained"): 75_000,  # [100, 105) and [330, 400)
    }


def test_a_step_lasts_until_its_last_device_work_ends(run_of):
    events = [
        step(0, 1000, 100),
        *launch(1, 1010, 1050, 170),
        step(1, 1100, 100),
        *launch(2, 1110, 1230, 50),
        step(2, 1200, 100),
    ]
    run = run_of([*events, *launch(3, 1210, 1290, 20)])
    rows = run.sql("select step, start_ns - $base, end_ns - $base, complete from steps order by step", base=BASE_NS)
    assert rows.fetchall() == [
        (0, 1_000_000, 1_220_000, True),
        (1, 1_220_000, 1_280_000, True),
        (2, 1_280_000, 1_310_000, True),
    ]


def test_an_uninstrumented_loader_is_absent_not_zero(run_of):
    run = run_of(kineto.training())
    assert run.sql("select count(*) from ledger where category = 'data_wait'").fetchall() == [(0,)]
    assert run.sql("select count(*) from batches").fetchall() == [(0,)]
    assert run.sql("select count(*) from quality where rule = 'loader_not_recorded'").fetchall() == [(1,)]


def test_a_cpu_only_step(run_of):
    """Operators compute, those inside next() wait, gloo's thread communicates, c10d's enqueue is host work."""
    gloo = span("user_annotation", "gloo:all_reduce", 1250, 100, **{"Input type": ["float"], "Input Dims": [[25]]})
    events = [
        step(0, 1000, 400),
        loader(1000, 100),
        span("cpu_op", "aten::stack", 1010, 80),
        span("cpu_op", "aten::mm", 1110, 150),
        span("cpu_op", "c10d::allreduce_", 1360, 20),
        {**gloo, "tid": 999},
    ]
    run = run_of(events)
    assert ledger(run) == {
        (0, "compute"): 150_000,
        (0, "exposed_comm"): 90_000,  # [1260, 1350)
        (0, "data_wait"): 100_000,
        (0, "host"): 20_000,
        (0, "unexplained"): 40_000,
    }
    assert run.sql("select op, bytes, dtype, exposed_ns from collectives").fetchall() == [
        ("all_reduce", 100, "float", 90_000)
    ]
    assert run.sql("select count(*) from device_time").fetchall() == [(0,)]


def test_collectives_that_are_only_enqueued_are_not_zero(run_of):
    """Without device work and without a CPU backend's spans nobody knows what the collective took."""
    local = [step(0, 1000, 100), span("cpu_op", "aten::mm", 1010, 50)]
    assert ledger(run_of(local))[0, "exposed_comm"] == 0
    enqueue = span("user_annotation", "nccl:all_reduce", 1070, 10)
    assert (0, "exposed_comm") not in ledger(run_of([*local, enqueue]))


def test_physics(run_of):
    """An overrun is clipped, untimed kernels count in nothing, an early kernel and an orphan are flagged."""
    events = [
        step(0, 1000, 1000),
        *launch(1, 1010, 1020, 500),  # overruns the next by 420 us: clipped to 80
        *launch(2, 1030, 1100, 50),
        *launch(3, 1050, 0, 10),  # ts 0
        *launch(4, 1060, 1200, -5),
        *launch(5, 1070, 1300, None),
        *launch(6, 1410, 1400, 50),  # before its launch
        span("kernel", "orphan", 1500, 50, correlation=99),
        *launch(7, 1600, 1610, 50),
        *launch(8, 1605, 1650, 50),  # overlaps by 10 us: still believed
    ]
    run = run_of(events)
    rows = run.sql(
        "select correlation, dur_ns, raw_dur_ns, flags from events where kind = 'kernel' order by event_id"
    ).fetchall()
    assert rows == [
        (1, 80_000, 500_000, ["clipped"]),
        (2, 50_000, 50_000, None),
        (3, None, 10_000, ["untimed"]),
        (4, None, -5_000, ["untimed"]),
        (5, None, None, ["untimed"]),
        (6, 50_000, 50_000, ["before_launch"]),
        (99, 50_000, 50_000, ["orphan"]),
        (7, 50_000, 50_000, None),
        (8, 50_000, 50_000, None),
    ]
    moved = run.sql(
        "select rule, count, effect_ns from quality where rule in ('clipped', 'untimed') order by rule"
    ).fetchall()
    assert moved == [("clipped", 1, 420_000), ("untimed", 3, 10_000)]
    assert run.sql("select sum(calls), sum(sum_ns) from kernels").fetchall() == [(6, 330_000)]
    busy = run.sql("select policy, busy_ns from device_time order by policy").fetchall()
    assert busy == [("all", 80_000 + 50_000 + 50_000 + 50_000 + 90_000), ("linked", 80_000 + 50_000 + 50_000 + 90_000)]


def test_classes_by_evidence(run_of):
    """Metadata beats the launcher, the launcher the name; contradicting evidence is nobody's."""
    events = [
        step(0, 1000, 1000),
        span("cpu_op", "record_param_comms", 1000, 30),
        *launch(1, 1005, 1100, 10, "renamed_by_a_vendor"),
        *launch(2, 1040, 1120, 10, "custom", **{"Collective name": "allreduce", "Group size": 2}),
        *launch(3, 1050, 1140, 10, "gemm_allreduce_fused", **{"Collective name": "allreduce"}),
        *launch(4, 1060, 1160, 10, "vllm::cross_device_reduce_2stage"),
        *launch(5, 1070, 1180, 10, "fused_adam"),
    ]
    rows = run_of(events).sql("select correlation, class from events where kind = 'kernel' order by 1").fetchall()
    assert rows == [
        (1, "communication"),
        (2, "communication"),
        (3, "unclassified"),
        (4, "communication"),
        (5, "compute"),
    ]


def test_args_keep_what_has_no_column_and_are_null_without(run_of):
    events = [step(0, 1000, 100), *launch(1, 1010, 1020, 50, grid=[1, 2, 3])]
    rows = run_of(events).sql("select kind, args from events order by event_id").fetchall()
    assert rows == [("step", None), ("runtime", None), ("kernel", '{"grid":[1,2,3]}')]


def test_operators_own_what_they_launch(run_of):
    events = [
        step(0, 1000, 1000),
        span("cpu_op", "aten::linear", 1000, 100),
        span("cpu_op", "aten::addmm", 1010, 60),
        *launch(1, 1020, 1200, 300),
        *launch(2, 1080, 1600, 50),
    ]
    rows = (
        run_of(events)
        .sql("select name, calls, host_ns, host_self_ns, device_ns from operators order by name")
        .fetchall()
    )
    assert rows == [
        ("aten::addmm", 1, 60_000, 55_000, 300_000),
        ("aten::linear", 1, 100_000, 35_000, 50_000),
    ]


def test_a_healthy_run_says_so(run_of):
    filled = []
    for at in range(4):
        start = 1000.0 + 1000 * at
        filled += [step(at, start, 1000), *launch(at + 1, start, start + 3, 995)]
    run = run_of(filled)
    assert run.findings().kind.tolist() == ["nothing_wrong"]
    assert "Nothing wrong" in run.verdict()


SPANS = st.lists(
    st.tuples(
        st.sampled_from(["gemm", "nccl", "copy", "op", "loader", "sync", "malloc"]),
        st.integers(0, 3000),
        st.integers(0, 900),
    ),
    min_size=1,
    max_size=30,
)


def _events(spans):
    made = []
    for at, (kind, start, dur) in enumerate(spans, start=1):
        start, dur = start / 1000 + 1000, dur / 1000
        if kind in ("gemm", "nccl"):
            made += launch(at, start, start, dur, "gemm" if kind == "gemm" else "ncclKernel_AllReduce")
        elif kind == "copy":
            made += [span("cuda_runtime", "cudaMemcpyAsync", start, 0.001, correlation=at)]
            made += [span("gpu_memcpy", "Memcpy HtoD", start, dur, correlation=at)]
        elif kind == "loader":
            made.append(loader(start, dur))
        else:
            name = {"op": "aten::mm", "sync": "cudaDeviceSynchronize", "malloc": "cudaMalloc"}[kind]
            made.append(span("cpu_op" if kind == "op" else "cuda_runtime", name, start, dur))
    return made


def test_of_spans_that_coincide_the_kind_tells_which_is_around(run_of):
    """An operator inside a loader's call of the same length is the loader's work, wherever it stands in the file."""
    marker, call, operator = step(0, 1000, 10), loader(1002, 3), span("cpu_op", "aten::stack", 1002, 3)
    for events in ([marker, call, operator], [marker, operator, call]):
        assert ledger(run_of(events))[0, "data_wait"] == 3_000


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SPANS, st.integers(0, 2**32), st.integers(0, 10**6))
def test_any_events_close_and_neither_order_nor_origin_matters(run_of, spans, seed, shift_us):
    markers = [step(0, 1000, 1.5), step(1, 1001.5, 1.25)]
    body = _events(spans)
    here = run_of([*markers, *body])
    moved = [{**event, "ts": event["ts"] + shift_us} for event in [*markers, *body]]
    random.Random(seed).shuffle(moved)
    there = run_of(moved)
    assert ledger(here) == ledger(there)
    for run in (here, there):
        assert run.sql("select bool_and(holds) from invariants where holds is not null").fetchall() == [(True,)]
        sums = run.sql(
            "select l.ns = s.dur_ns from (select step, sum(ns) as ns from ledger group by step) l join steps s using (step)"
        ).fetchall()
        assert sums
        assert all(closes for (closes,) in sums)
