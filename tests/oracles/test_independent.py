"""The tables against a second reading of the raw JSON by the definitions: decimals, plain lists, no sweep, no SQL.

The traces have neither kernels without timing nor overruns, and their communication kernels all say so in their names,
so what is here stays short.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise

import pytest

TRACES = [
    "tracelens/mi300/resnet_act_checkpoint.json.gz",  # three steps, eight ranks' collectives, 968 orphans
    "param-dlrm/worker1_step_12.1694128201556.pt.trace.json.gz",  # a loader, 64 orphans
    "hta/rank_non_gpu/rank_non_gpu.json.gz",  # no device
]
KINDS = {"cuda_runtime": "runtime", "cuda_driver": "runtime", "cpu_op": "operator", "user_annotation": "annotation"}
KINDS |= {"gpu_memcpy": "copy", "gpu_memset": "memset", "kernel": "kernel", "python_function": "python"}
DEVICE = ("kernel", "copy", "memset")
SYNC = r"(cuda|hip)(Device|Stream|Event)Synchronize"
ALLOCATOR = r"(cuda|hip)(Malloc|Free|Host(Alloc|Malloc|Free|Register))"


class Event:
    """A timed event of the trace; stamps in ns, the file's own."""

    def __init__(self, at, raw):
        self.id, self.name, self.args = at, raw["name"], raw.get("args") or {}
        self.start, self.dur = int(raw["ts"] * 1000), int(raw["dur"] * 1000)
        self.end = self.start + self.dur
        self.kind = KINDS.get(raw["cat"].lower())
        if self.kind in ("operator", "annotation"):
            self.kind = "step" if self.name.startswith("ProfilerStep#") else self.kind
            self.kind = "dataloader" if self.name.startswith("enumerate(DataLoader)#") else self.kind
        self.thread, self.correlation = str(raw["tid"]), self.args.get("correlation")
        self.around = self.launch = None
        self.comm = self.kind == "kernel" and "nccl" in self.name

    def outward(self):
        """Yield what encloses it, from the inside."""
        one = self.around
        while one:
            yield one
            one = one.around

    def operator(self):
        return next((one for one in self.outward() if one.kind == "operator"), None)


def read(path):
    text = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    raw = text["traceEvents"]
    events = [Event(at, one) for at, one in enumerate(raw) if one["ph"] == "X" and one["cat"].lower() in KINDS]
    threads, launches = defaultdict(list), {}
    for one in sorted(events, key=lambda one: (one.start, -one.dur, one.id)):
        if one.kind not in DEVICE:
            open_ = threads[one.thread] = [other for other in threads[one.thread] if other.end > one.start]
            one.around = next((other for other in reversed(open_) if other.end >= one.end), None)
            open_.append(one)
        if one.kind == "runtime" and one.correlation:
            launches.setdefault(one.correlation, one)
    for one in events:
        if one.kind in DEVICE:
            one.launch = launches.get(one.correlation)
    return events, text.get("baseTimeNanoseconds", 0)


def union(intervals):
    merged = []
    for start, end in sorted(pair for pair in intervals if pair[0] < pair[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def split(whole, lane):
    """Return what of ``whole`` lies in ``lane`` and what does not; both are disjoint and sorted."""
    inside, outside, near = [], [], iter(lane)
    cut = next(near, None)
    for start, end in whole:
        while cut and cut[1] <= start:
            cut = next(near, None)
        while cut and cut[0] < end:
            outside.append((start, max(start, cut[0])))
            inside.append((max(start, cut[0]), min(end, cut[1])))
            start = min(end, cut[1])
            if cut[1] > end:
                break
            cut = next(near, None)
        outside.append((start, end))
    return union(inside), union(outside)


def total(intervals):
    return sum(end - start for start, end in intervals)


def lanes_of(events):
    def lane(wanted):
        return union((one.start, one.end) for one in events if wanted(one))

    device = any(one.kind in DEVICE for one in events)
    computes = (lambda one: one.kind in ("kernel", "memset") and not one.comm) if device else _trains
    lanes = {"compute": lane(computes)}
    if device or not any(_enqueues(one) for one in events):  # else there was communication, and none is in the trace
        lanes["exposed_comm"] = lane(lambda one: one.comm)
    if device:
        lanes |= {"exposed_copy": lane(lambda one: one.kind == "copy"), "unclassified": []}
    if any(one.kind == "dataloader" for one in events):
        lanes["data_wait"] = lane(lambda one: one.kind == "dataloader")
    if any(one.kind == "runtime" for one in events):
        lanes["sync"] = lane(lambda one: one.kind == "runtime" and re.match(SYNC, one.name))
        lanes["allocator"] = lane(lambda one: one.kind == "runtime" and re.match(ALLOCATOR, one.name))
    return lanes | {"host": lane(lambda one: one.kind in ("operator", "runtime"))}


def _trains(one):
    return one.kind == "operator" and not _enqueues(one) and all(other.kind != "dataloader" for other in one.outward())


def _enqueues(one):
    return one.kind in ("operator", "annotation") and one.name.startswith(("c10d::", "record_param_comms", "nccl:"))


def steps_of(events):
    """Return the steps as (start, end): one marker's end moves with the last device work launched inside it."""
    steps = []
    for marker in sorted((one for one in events if one.kind == "step"), key=lambda one: one.start):
        work = [one.end for one in events if one.launch and marker.start <= one.launch.start < marker.end]
        start = max([marker.start, *(end for _, end in steps[-1:])])
        steps.append((start, max([marker.end, *work])))
    assert all(one[1] <= other[0] for one, other in pairwise(steps))
    return steps


@pytest.fixture(params=TRACES)
def both(request, shared, shared_run):
    return *read(shared / request.param), shared_run(request.param)


def test_the_ledger(both):
    events, base, run = both
    lanes, steps = lanes_of(events), steps_of(events)
    expected = {}
    for at, step in enumerate(steps):
        rest = [step]
        for category, lane in lanes.items():
            taken, rest = split(rest, lane)
            expected[at, category] = total(taken)
        expected[at, "unexplained"] = total(rest)
    assert steps
    found = run.sql("select start_ns, end_ns from steps order by step").fetchall()
    assert [(start + base, end + base) for start, end in steps] == found
    assert {row[:2]: row[2] for row in run.sql("select step, category, ns from ledger").fetchall()} == expected


def test_device_time(both):
    events, _, run = both
    expected = {}
    for policy in ("all", "linked"):
        work = [one for one in events if one.kind in DEVICE and (policy == "all" or one.launch)]
        if not work:
            continue
        span = max(one.end for one in work) - min(one.start for one in work)
        lanes = lanes_of(work)
        busy = total(union((one.start, one.end) for one in work))
        hidden, exposed = map(total, split(lanes["exposed_comm"], lanes["compute"]))
        alone = total(split(split(lanes["exposed_copy"], lanes["compute"])[1], lanes["exposed_comm"])[1])
        expected[policy] = (span, busy, span - busy, total(lanes["compute"]), exposed, hidden, alone)
    columns = "span_ns, busy_ns, idle_ns, compute_ns, exposed_comm_ns, overlapped_comm_ns, exposed_copy_ns"
    found = run.sql(f"select policy, {columns} from device_time").fetchall()
    assert {policy: tuple(numbers) for policy, *numbers in found} == expected


def test_parents_and_operators(both):
    events, _, run = both
    parents = dict(run.sql("select event_id, parent_id from events").fetchall())
    for one in events:
        above = one.launch or one.around
        assert parents[one.id] == (above and above.id)
    device = any(one.kind in DEVICE for one in events)
    sums = defaultdict(lambda: [0, 0, 0, 0 if device else None])
    for one in events:
        inside = one.operator()
        if one.kind == "operator":
            for at, more in enumerate((1, one.dur, one.dur)):
                sums[one.name][at] += more
        if inside and (one.kind == "operator" or (one.kind == "runtime" and one.around.kind != "runtime")):
            sums[inside.name][2] -= one.dur
        if one.launch and one.launch.operator():
            sums[one.launch.operator().name][3] += one.dur
    found = run.sql("select name, calls, host_ns, host_self_ns, device_ns from operators").fetchall()
    assert {name: list(numbers) for name, *numbers in found} == dict(sums)


def test_exposed_waits_and_collectives(both):
    events, _, run = both
    lanes = lanes_of(events)
    busy = union(pair for name in ("compute", "exposed_comm", "exposed_copy") for pair in lanes.get(name, ()))
    waits = [
        (one.dur, total(split([(one.start, one.end)], busy)[1]))
        for one in sorted(events, key=lambda one: one.start)
        if one.kind == "dataloader" and all(other.kind != "dataloader" for other in one.outward())
    ]
    found = run.sql("select wait_ns, exposed_ns from batches order by wait_start_ns").fetchall()
    assert found == waits
    exposed = {one.id: total(split([(one.start, one.end)], lanes["compute"])[1]) for one in events if one.comm}
    assert dict(run.sql("select event_id, exposed_ns from collectives").fetchall()) == exposed
