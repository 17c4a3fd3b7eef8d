"""Snapshots and timelines become a run: by hand, by PyTorch's own conventions, and hostile."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path

import pytest

from stepscope.api import open_run
from stepscope.ingest.errors import StepscopeError
from stepscope.pipeline import ingest

from ..support.snapshots import MiB, event, frame, segment, write

FORWARD = [frame("relu", 9, "/lib/torch/nn/functional.py"), frame("forward", 3), frame("main", 1)]
STATE = [frame("_init_group", 5, "/lib/torch/optim/adamw.py"), frame("main", 2)]


@pytest.fixture
def run(tmp_path):
    opened = []

    def make(*sources):
        ingest(list(sources), tmp_path / "run")
        opened.append(open_run(tmp_path / "run"))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def one(run, query):
    ((row,),) = [run.sql(query).fetchall()]
    return row


@pytest.mark.parametrize("protocol", range(6))
def test_a_snapshot_by_hand(run, tmp_path, protocol):
    """Before: 30 MiB at 0x1000 (freed in the recording) and 20 MiB at 0x2000. The peak is after the third event."""
    trace = [
        event("alloc", 0x3000, 50 * MiB, 1_000, FORWARD),
        event("free_requested", 0x1000, 30 * MiB, 2_000),
        event("free_completed", 0x1000, 30 * MiB, 3_000),
        event("alloc", 0x4000, 40 * MiB, 4_000, STATE),
        event("free_requested", 0x3000, 50 * MiB, 5_000),
        event("free_completed", 0x3000, 50 * MiB, 6_000),
    ]
    segments = [
        segment(0x2000, [(20 * MiB, "active_allocated")]),
        segment(0x4000, [(40 * MiB, "active_allocated"), (60 * MiB, "inactive"), (10 * MiB, "inactive")]),
        segment(0x9000, [(80 * MiB, "inactive")], pool=(1, 0)),
    ]
    opened = run(write(tmp_path / "rank3.pickle", segments, trace, protocol=protocol))
    assert opened.sql(
        "select rank, device, peak, peak_ns, before, at_end, reserved, free, largest_free, private_free, unmatched "
        "from memory_peaks"
    ).fetchall() == [
        (3, "cuda:0", 110 * MiB, 4_000_000, 50 * MiB, 60 * MiB, 210 * MiB, 70 * MiB, 60 * MiB, 80 * MiB, 0)
    ]
    held = "select category, phase, place, blocks, bytes from memory_alive order by bytes"
    assert opened.sql(held).fetchall() == [
        ("unknown", "before", None, 1, 20 * MiB),
        ("optimizer", "optimizer", "main (/job/train.py:2)", 1, 40 * MiB),
        ("activation", "forward", "forward (/job/train.py:3)", 1, 50 * MiB),
    ]
    assert opened.sql("select max(n) from (select sum(bytes) as n from memory_lines group by t_ns)").fetchall() == [
        (110 * MiB,)
    ]
    assert opened.sql("select verdict, format, rank, rank_source, events, capture from sources").fetchall() == [
        ("ok", "memory_snapshot", 3, "filename", 6, None)
    ]


def test_two_devices(run, tmp_path):
    traces = [event("alloc", 1, 5, 10)], [event("alloc", 1, 7, 10), event("alloc", 2, 8, 11)]
    segments = [segment(1, [(5, "active_allocated")]), segment(1, [(7, "active_allocated")], device=1)]
    segments[1]["blocks"].append({"address": 2, "size": 8, "requested_size": 8, "state": "active_allocated"})
    opened = run(write(tmp_path / "s.pkl", segments, *traces))
    assert opened.sql("select device, peak, before from memory_peaks order by 1").fetchall() == [
        ("cuda:0", 5, 0),
        ("cuda:1", 15, 0),
    ]


class Hostile:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(6))
def test_a_hostile_snapshot_is_told_and_not_run(run, tmp_path, protocol):
    bad = tmp_path / "bad.pickle"
    bad.write_bytes(pickle.dumps({"segments": [Hostile(tmp_path / "made")], "device_traces": []}, protocol))
    opened = run(bad)
    assert not (tmp_path / "made").exists()
    verdict, reason = one(opened, "select verdict, reason from sources")
    assert verdict == "quarantined"
    assert "more than plain data" in reason


def test_a_cut_snapshot_is_quarantined_and_leaves_nothing(run, tmp_path):
    whole = write(tmp_path / "s.pickle", [segment(1, [(5, "active_allocated")])], [event("alloc", 1, 5, 10)])
    cut = tmp_path / "cut.pickle"
    cut.write_bytes(Path(whole).read_bytes()[:-30])
    opened = run(cut)
    assert one(opened, "select verdict from sources") == ("quarantined",)
    assert opened.sql("from memory_peaks").fetchall() == []


def test_other_pickles_are_passed_over_in_a_directory_and_told_when_named(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "weights.pkl").write_bytes(pickle.dumps({"weights": [1.0] * 10}))
    write(tmp_path / "in" / "s.pickle", [segment(1, [(5, "active_allocated")])])
    opened = run(tmp_path / "in")
    assert [source.rpartition("/")[2] for (source,) in opened.sql("select source from sources").fetchall()] == [
        "s.pickle"
    ]
    named = ingest(tmp_path / "in" / "weights.pkl", tmp_path / "other").records
    assert named[0]["reason"] == "is a pickle, but no PyTorch memory snapshot"


def test_the_raw_timeline_of_the_oracle(shared, run):
    """ORACLES D: sizes at index 744, the 745th different time; here the sum of all changes up to it."""
    path = shared / "hta" / "memory_analysis" / "memory_timeline.raw.gz"
    wanted = [102440608, 102228128, 19395584, 0, 2618160128, 58417152, 41811968, 25494440]
    rows = json.loads(gzip.decompress(path.read_bytes()))
    times = list(dict.fromkeys(t for t, *_ in rows))
    opened = run(path)
    names = ["parameter", "optimizer", "input", "temporary", "activation", "gradient", "detail", "unknown"]
    from stepscope.ingest.memory_timeline import CATEGORIES, read_timeline

    told = read_timeline(gzip.decompress(path.read_bytes()))
    assert list(CATEGORIES) == names
    seen = told.t_ns <= times[744]
    assert [int(told.before[i] + told.change[seen & (told.category == i)].sum()) for i in range(8)] == wanted
    peak, parts = one(opened, "select any_value(peak), (select sum(bytes) from memory_alive) from memory_peaks")
    at: dict[int, int] = {}
    live = highest = 0
    for t, _, change, _ in rows:
        live += change
        at[t] = live
        highest = max(highest, live) if t >= 0 else highest
    assert peak == parts == max(highest, at[-1])


def test_the_synthetic_snapshot_of_mosaic_is_told_not_to_reconcile(shared, run):
    path = shared / "mosaic" / "output.pickle"
    opened = run(path)
    told = pickle.loads(path.read_bytes())
    blocks = sum(b["requested_size"] for s in told["segments"] for b in s["blocks"])
    assert one(opened, "select at_end, events, unmatched from memory_peaks") == (blocks, 1040, 0)
    rules = {rule for (rule,) in opened.sql("select rule from quality").fetchall()}
    assert rules >= {"memory_does_not_reconcile", "memory_exceeds_reserved"}
    assert one(opened, "select sum(bytes) = any_value(peak) from memory_alive join memory_peaks using (source)") == (
        True,
    )


def ran_out(tmp_path, asked, free, device_free, after=()):
    trace = [
        event("alloc", 0x1000, 10 * MiB, 1),
        event("oom", 0, asked * MiB, 2, device_free=device_free * MiB),
        *after,
    ]
    blocks = [
        (10 * MiB, "active_allocated"),
        *[b for n in free for b in ((n * MiB, "inactive"), (MiB, "active_allocated"))],
    ]
    return write(
        tmp_path / "oom.pickle",
        [segment(0x1000, blocks), segment(0x9000_0000, [(80 * MiB, "inactive")], pool=(1, 2))],
        trace,
    )


def test_fragmentation_in_words(run, tmp_path):
    found = run(ran_out(tmp_path, 200, [150, 150, 100], 20)).findings()
    told = found[found.kind == "fragmentation"].iloc[0]
    assert "asked 200 MiB; 400 MiB reserved but free, largest block 150 MiB; 20 MiB free on the device" in told.sentence
    assert "80 MiB more sits in private pools" in told.sentence
    assert told.confidence == "high"
    assert found.kind.tolist() == ["fragmentation", "cannot_tell"]
    assert "out_of_memory" not in set(found.kind)


def test_true_want_of_memory(run, tmp_path):
    found = run(ran_out(tmp_path, 200, [50, 20], 20)).findings()
    assert "for want of memory" in found[found.kind == "out_of_memory"].iloc[0].sentence
    assert "fragmentation" not in set(found.kind)


def test_an_allocator_that_went_on_is_not_sure(run, tmp_path):
    found = run(ran_out(tmp_path, 200, [150, 150], 0, after=[event("free_completed", 0x77, 5, 3)])).findings()
    told = found[found.kind == "fragmentation"].iloc[0]
    assert (told.confidence, "went on afterwards" in told.sentence) == ("low", True)


def test_a_missing_snapshot_is_a_sentence(tmp_path):
    with pytest.raises(StepscopeError, match="does not exist"):
        ingest(tmp_path / "none.pickle", tmp_path / "run")
