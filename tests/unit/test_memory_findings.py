"""Memory findings on what was written by hand: the planted fault is found with its numbers, its absence is not."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from stepscope.analyze.query import rows_of
from stepscope.api import open_run
from stepscope.ingest.schema import DEVICE_MEMORY, HOST_MEMORY
from stepscope.ingest.writer import create_run, table_path, write_json, write_parquet
from stepscope.pipeline import ingest

from ..support import kineto
from ..support.kineto import span, step

MiB, GiB = 2**20, 2**30


@pytest.fixture
def run_of(tmp_path):
    """Return a function from what the collector and the traces say of rank 0 to the open run."""
    opened = []

    def make(events=(), host=(), devices=(), **session):
        run = create_run(tmp_path / "run", "test")
        facts = {"session": "s", "rank": 0, "world_size": 1, "host": "h", "started_ns": 0, **session}
        write_json(facts, run / "sessions" / "rank=00000" / "s.json")
        for name, schema, rows in (("host_memory", HOST_MEMORY, host), ("device_memory", DEVICE_MEMORY, devices)):
            full = [{"rank": 0, "session": "s", "step": i, "t_ns": i, **row} for i, row in enumerate(rows)]
            write_parquet(pa.Table.from_pylist(full, schema=schema), table_path(run, name, 0, "s"))
        if events:
            ingest(kineto.write(tmp_path / "rank0.json", list(events)), run)
        opened.append(open_run(run))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def sentences(run, kind):
    found = run.findings()
    for one in found.itertuples():
        assert len(run.sql(one.evidence_sql).fetchall()[:20]) == len(json.loads(one.evidence_rows))
    return found[found.kind == kind].sentence.tolist()


def moment(at, size, address, total=None, device=1):
    told = {"Device Type": device, "Device Id": 0, "Bytes": size, "Addr": address, "Total Reserved": total or 0}
    told["Total Allocated"] = total
    place = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 100, "tid": 100}
    return {**place, "ts": at, "args": {k: v for k, v in told.items() if v is not None}}


def forward(at, n, address, keep=False):
    """A step of 100 µs: a forward operator allocates n bytes; backward frees them, unless they are kept."""
    events = [step(at // 100, at, 100), span("cpu_op", "aten::mm", at + 10, 10), moment(at + 12, n, address, n)]
    backward = [span("cpu_op", "autograd::engine::evaluate_function: MmBackward0", at + 50, 20)]
    return events + backward + ([] if keep else [moment(at + 60, -n, address, 1)])


def test_shared_memory_near_its_limit(run_of):
    full = {"shm_used": 61 * MiB, "shm_size": 64 * MiB, "rss": GiB, "workers": 4, "workers_pss": 2 * GiB}
    (told,) = sentences(run_of(host=[{"shm_used": MiB, "shm_size": 64 * MiB}, full]), "shared_memory_limit")
    assert "/dev/shm of rank 0's host was 95.3 % full at step 1 (61 MiB of 64 MiB)" in told
    assert "its 4 loader workers 2.00 GiB" in told


def test_a_container_near_its_limit_is_told_apart_from_the_machine(run_of):
    row = {
        "cgroup_used": 950 * MiB,
        "cgroup_limit": 1000 * MiB,
        "total": 16 * GiB,
        "available": 8 * GiB,
        "rss": 9 * MiB,
    }
    run = run_of(host=[row])
    (told,) = sentences(run, "host_memory_limit")
    assert "The container of rank 0 was 95.0 % full" in told
    assert sentences(run, "shared_memory_limit") == []


def test_host_memory_with_room_is_no_finding(run_of):
    row = {
        "shm_used": 58 * MiB,
        "shm_size": 64 * MiB,
        "total": 100,
        "available": 9,
        "cgroup_used": 1,
        "cgroup_limit": 2,
    }
    run = run_of(host=[row])
    assert not {"shared_memory_limit", "host_memory_limit"} & set(run.findings().kind)


def test_the_batch_that_fits(run_of):
    """1 GiB: 980 MiB reserved, 500 of them activations of a batch of 10, 20 MiB others'. 1004 - 480 = 524: 10.48 batches."""
    events = [e for at in (100, 200, 300) for e in forward(at, 500 * MiB, 77)]
    device = {"device": "cuda:0", "reserved": 980 * MiB, "peak_reserved": 980 * MiB, "free": 24 * MiB, "total": GiB}
    loaders = [{"batch_size": 10}, {"batch_size": 10}, {"batch_size": None}]
    run = run_of(events, devices=[device], device_memory=GiB, loaders=loaders)
    (row,) = rows_of(run.query("memory_headroom"))
    assert (row["outside"], row["scaling"], row["fits"]) == (20 * MiB, 500 * MiB, 10)
    (told,) = sentences(run, "memory_limit")
    assert "95.7 %" in told
    assert "now 10, one of 10 is the largest that fits" in told


def test_activations_held_across_steps(run_of):
    """Kept twice: in the third step 100 of the first and 200 of the second are still there, beside its own 300."""
    kept = [*forward(100, 100, 1, keep=True), *forward(200, 200, 2, keep=True), *forward(300, 300, 3)]
    (told,) = sentences(run_of(kept), "activations_held")
    assert "At the peak in step 2, 300 bytes of 600 bytes on cuda:0 of rank 0 (50.0 %)" in told  # the first one is 0
    assert "most from aten::mm, 300 bytes" in told


def test_activations_that_backward_frees_are_no_finding(run_of):
    assert sentences(run_of([e for at in (100, 200, 300) for e in forward(at, 500, 7)]), "activations_held") == []


def test_what_stays_of_every_step_and_what_of_one(run_of):
    """aten::mm leaves 100, then 80 bytes; the last step does not count. What one step alone leaves does not grow."""
    once = [span("cpu_op", "aten::ones", 230, 5), moment(231, 999, 50, 999)]
    events = [*forward(100, 100, 1, keep=True), *forward(200, 80, 2, keep=True), *once, *forward(300, 70, 3, keep=True)]
    growing = run_of(events).query("memory_growing").fetchall()
    assert [(row[3], row[7], row[8]) for row in growing] == [("aten::mm", 2, 80)]


def test_optimizer_state_that_could_be_sharded(run_of):
    states = {"optimizer": 400 * MiB, "whole_optimizer": 400 * MiB}
    device = {"device": "cuda:0", "reserved": 1000 * MiB, "peak_reserved": 1000 * MiB}
    told = sentences(run_of(devices=[device], device_memory=GiB, world_size=4, states=states), "optimizer_replicated")
    assert "the whole optimizer state, 400 MiB" in told[0]
    assert "sharded, 300 MiB of it would be free on each" in told[0]


@pytest.mark.parametrize(
    ("whole", "reserved"), [(1600 * MiB, 1000 * MiB), (400 * MiB, 500 * MiB)], ids=["sharded", "with room"]
)
def test_optimizer_state_that_is_right(run_of, whole, reserved):
    states = {"optimizer": 400 * MiB, "whole_optimizer": whole}
    device = {"device": "cuda:0", "reserved": reserved, "peak_reserved": reserved}
    run = run_of(devices=[device], device_memory=GiB, world_size=4, states=states)
    assert sentences(run, "optimizer_replicated") == []


def test_a_stall_of_the_allocator_includes_its_wait_for_the_device(run_of):
    """In one operator the cache is emptied: 10 µs of waiting and 5 of freeing; a wait elsewhere is no allocator's."""
    events = [
        step(1, 100, 100),
        span("cpu_op", "aten::empty", 110, 30),
        span("cuda_runtime", "cudaEventSynchronize", 112, 10),
        span("cuda_runtime", "cudaFree", 125, 5),
        span("cpu_op", "aten::item", 150, 30),
        span("cuda_runtime", "cudaStreamSynchronize", 152, 20),
        *kineto.launch(1, 101, 190, 5),
    ]
    ledger = dict(run_of(events).sql("select category, ns from ledger").fetchall())
    assert (ledger["allocator"], ledger["sync"]) == (15_000, 20_000)


def test_modules_around_an_allocation(run_of):
    """Python stacks tell modules: the path of the innermost one, the outermost first."""
    spans = [(105, 90, "nn.Module: Net_0"), (106, 80, "train.py(3): forward"), (108, 20, "nn.Module: Linear_2")]
    python = [span("python_function", name, at, length) for at, length, name in spans]
    run = run_of([*forward(100, 100, 1), *python])
    assert run.sql("select place, module from memory_alive").fetchall() == [("aten::mm", "Net_0/Linear_2")]
