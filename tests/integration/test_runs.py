"""What several sources mean together, and that a run survives whatever happens while it is made."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq
import pytest

from stepscope import StepscopeError
from stepscope.api import open_run
from stepscope.pipeline import ingest

from ..support import kineto
from ..support.kineto import BASE_NS


def ranks_of(run):
    return run.sql("select rank, capture, rank_source, verdict from sources order by rank, capture").fetchall()


def fingerprint(run):
    """Hash every Parquet file of a run but the sources, which name paths."""
    files = sorted(path for path in run.rglob("*.parquet") if "sources" not in path.parts)
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_input_gives_the_same_bytes_and_again_costs_nothing(tmp_path):
    for rank in range(3):
        kineto.write(tmp_path / "traces" / f"rank{rank}.json", kineto.training(), rank=rank, world_size=3)
    first = ingest(str(tmp_path / "traces"), tmp_path / "a")
    ingest([str(tmp_path / "traces" / f"rank{rank}.json") for rank in (2, 0, 1)], tmp_path / "b")
    assert fingerprint(tmp_path / "a") == fingerprint(tmp_path / "b")
    assert len(first.records) == 3
    again = ingest(str(tmp_path / "traces"), tmp_path / "a")
    assert (len(again.records), again.unchanged) == (0, 3)
    kineto.write(tmp_path / "traces" / "rank1.json", kineto.training(5), rank=1, world_size=3)
    changed = ingest(str(tmp_path / "traces"), tmp_path / "a")
    assert [record["claimed_rank"] for record in changed.records] == [1]


def test_a_capture_put_together_in_stretches_is_the_same(tmp_path, monkeypatch):
    """Large captures are written piece by piece: rows, their order and every table stay what they were."""
    trace = kineto.write(tmp_path / "rank0.json", kineto.training(60))
    ingest(trace, tmp_path / "whole")
    monkeypatch.setattr("stepscope.ingest.capture.AT_ONCE", 50)
    monkeypatch.setattr("stepscope.ingest.capture.ROW_GROUP", 37)
    ingest(trace, tmp_path / "pieces")
    with open_run(tmp_path / "whole") as whole, open_run(tmp_path / "pieces") as pieces:
        rows = [run.sql("from events order by event_id").fetchall() for run in (whole, pieces)]
        assert rows[0] == rows[1]
    for run in ("whole", "pieces"):
        (file,) = (tmp_path / run / "events").rglob("*.parquet")
        assert pq.read_table(file)["event_id"].to_pylist() == list(range(len(kineto.training(60))))
    same = {path: digest for path, digest in fingerprint(tmp_path / "whole").items() if not path.startswith("events")}
    assert {path: digest for path, digest in fingerprint(tmp_path / "pieces").items() if path in same} == same


def test_a_trace_that_needs_more_memory_gets_it(tmp_path, monkeypatch):
    monkeypatch.setattr("stepscope.pipeline.MEMORY_LIMITS", ("1MB", "2MB", "512MB"))
    ingest(kineto.write(tmp_path / "rank0.json", kineto.training(2000)), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        assert run.sql("select count(*) from steps").fetchall() == [(2000,)]


def test_coverage_names_the_missing(tmp_path):
    for rank in (0, 1, 3):
        kineto.write(tmp_path / "t" / f"{rank}.json", kineto.training(), rank=rank, world_size=5)
    (tmp_path / "t" / "4.json").write_text("")
    ingest(str(tmp_path / "t"), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        assert run.coverage() == "3 of 5 ranks; missing 2, 4"
        manifest = json.loads((tmp_path / "run" / "run.json").read_text())
        assert manifest["coverage"] == "3 of 5 ranks; missing 2, 4"
        assert run.sql("select verdict, reason from sources where verdict <> 'ok'").fetchall() == [
            ("quarantined", "is empty")
        ]


def test_content_beats_the_name_and_the_name_beats_nothing(tmp_path):
    kineto.write(tmp_path / "t" / "rank-7.json", kineto.training(), rank=2, world_size=8)
    kineto.write(tmp_path / "t" / "worker5.1623143089861.pt.trace.json", kineto.training(), rank=None)
    ingest(str(tmp_path / "t"), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        assert ranks_of(run) == [(2, 0, "distributedInfo", "ok"), (5, 0, "filename", "ok")]


def test_nameless_files_are_numbered_by_start_whatever_the_order(tmp_path):
    for name, first in (("c", 3000), ("a", 9000), ("b", 1000)):
        kineto.write(tmp_path / "t" / f"{name}.json", kineto.training(first_us=first), rank=None)
    for at, order in enumerate(itertools.permutations("abc")):
        out = tmp_path / f"run{at}"
        for name in order:  # one after the other: ranks move as more is known
            ingest(str(tmp_path / "t" / f"{name}.json"), out)
        with open_run(out) as run:
            told = run.sql("select source, rank, rank_source from sources order by rank").fetchall()
            assert [(source[-6], rank, told_by) for source, rank, told_by in told] == [
                ("b", 0, "order"),
                ("c", 1, "order"),
                ("a", 2, "order"),
            ]
            starts = run.sql("select rank, min(start_ns) - $base from steps group by rank order by rank", base=BASE_NS)
            assert starts.fetchall() == [(0, 1_000_000), (1, 3_000_000), (2, 9_000_000)]
        assert (out / "events" / "rank=00002").is_dir()


def test_one_nameless_file_is_rank_0(tmp_path):
    trace = kineto.write(tmp_path / "trace.json", kineto.training(), rank=None)
    ingest(trace, tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        assert ranks_of(run) == [(0, 0, "none", "ok")]
        assert run.sql("select count(*) from quality where rule = 'rank_inferred'").fetchall() == [(1,)]


def test_two_windows_of_a_rank_are_captures_with_steps_that_go_on(tmp_path):
    kineto.write(tmp_path / "t" / "later.json", kineto.training(3, first_us=50_000), rank=0)
    kineto.write(tmp_path / "t" / "earlier.json", kineto.training(4, first_us=1000), rank=0)
    ingest(str(tmp_path / "t"), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        rows = run.sql("select capture, step, label from steps order by step").fetchall()
        assert rows == [(0, at, f"ProfilerStep#{at}") for at in range(4)] + [
            (1, 4 + at, f"ProfilerStep#{at}") for at in range(3)
        ]
        assert run.sql("select count(distinct step) from ledger").fetchall() == [(7,)]


def test_overlapping_claims_of_a_rank_are_both_listed_and_never_added(tmp_path):
    kineto.write(tmp_path / "t" / "a.json", kineto.training(4), rank=0)
    kineto.write(tmp_path / "t" / "b.json", kineto.training(3, first_us=2500), rank=0)
    ingest(str(tmp_path / "t"), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        assert [bool(reason) for (reason,) in run.sql("select reason from sources").fetchall()] == [True, True]
        assert run.sql("select count(distinct capture) from events").fetchall() == [(2,)]
        assert run.sql("select capture, count(*) from judged group by capture").fetchall() == [(0, 4)]
        assert (
            run.sql("select rank, count(*) from steps group by all having count(*) <> count(distinct step)").fetchall()
            == []
        )


def test_the_same_bytes_twice_are_one_source(tmp_path):
    trace = kineto.write(tmp_path / "t" / "a.json", kineto.training(), rank=0)
    shutil.copy(trace, tmp_path / "t" / "b.json")
    ingest(str(tmp_path / "t"), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        assert run.sql("select count(*), count(capture), count(*) filter (reason <> '') from sources").fetchall() == [
            (2, 1, 1)
        ]
        assert run.sql("select count(*) from events").fetchall() == [(len(kineto.training()),)]


def test_a_cut_file_takes_the_base_of_its_job_or_none(tmp_path):
    whole = kineto.document(kineto.training(), rank=0, world_size=2)
    base = f'"baseTimeNanoseconds": {BASE_NS}'
    assert base in whole
    cut = kineto.document(kineto.training(), rank=1, world_size=2).replace(f"{base},", "")
    cut = cut[: cut.rindex('"ph"')]
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "cut.json").write_text(cut)
    ingest(str(tmp_path / "t"), tmp_path / "alone")
    with open_run(tmp_path / "alone") as run:
        assert run.sql("select clock_error_ns from ranks").fetchall() == [(None,)]
        assert run.sql("select count(*) from quality where rule = 'base_lost'").fetchall() == [(1,)]
    (tmp_path / "t" / "whole.json").write_text(whole)
    ingest(str(tmp_path / "t"), tmp_path / "both")
    with open_run(tmp_path / "both") as run:
        starts = run.sql("select min(start_ns) from steps group by rank").fetchall()
        assert starts == [(BASE_NS + 1_000_000,)] * 2
        assert run.sql("select count(*) from quality where rule = 'base_adopted'").fetchall() == [(1,)]
        assert run.sql("select verdict from sources where rank = 1").fetchall() == [("truncated",)]


def test_a_newer_schema_is_refused_in_words(tmp_path):
    ingest(kineto.write(tmp_path / "rank0.json", kineto.training()), tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**manifest, "schema": "stepscope/run/2"}))
    with pytest.raises(StepscopeError, match=r"stepscope/run/2.*Upgrade"):
        open_run(tmp_path / "run")


def test_many_writers_at_once(tmp_path):
    """Each rank's process ingests its own file into one run, all at the same time."""
    traces = [
        kineto.write(tmp_path / f"rank{rank}.json", kineto.training(), rank=rank, world_size=6) for rank in range(6)
    ]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda trace: ingest(trace, tmp_path / "run"), traces))
    with open_run(tmp_path / "run") as run:
        assert run.coverage() == "6 of 6 ranks"
        assert run.sql("select count(*) from steps").fetchall() == [(24,)]
    assert len(json.loads((tmp_path / "run" / "run.json").read_text())["sources"]) == 6


@pytest.mark.parametrize("delay", [0.4, 0.8, 1.2, 1.8, 2.5])
def test_a_killed_ingest_loses_nothing_and_is_taken_up_again(tmp_path, delay):
    for rank in range(6):
        events = kineto.training(400)
        trace = kineto.write(tmp_path / "t" / f"rank{rank}.json", events, rank=rank, world_size=6)
        trace.with_suffix(".json.gz").write_bytes(gzip.compress(trace.read_bytes()))
        trace.unlink()
    command = [sys.executable, "-m", "stepscope", "ingest", str(tmp_path / "t"), "-o", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if (tmp_path / "run" / "run.json").exists():  # whatever is there is whole
        with open_run(tmp_path / "run") as run:
            done = run.sql("select count(*) from sources").fetchall()[0][0]
            assert run.sql("select count(*) from steps").fetchall() == [(400 * done,)]
    ingest(str(tmp_path / "t"), tmp_path / "run")
    ingest(str(tmp_path / "t"), tmp_path / "fresh")
    assert fingerprint(tmp_path / "run") == fingerprint(tmp_path / "fresh")
    assert not list((tmp_path / "run" / ".staging").iterdir())


def test_uris_are_read_and_runs_opened_from_them(tmp_path):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/traces/rank0.json", kineto.document(kineto.training()).encode())
    ingest("memory://bucket/traces/rank0.json", tmp_path / "run")
    memory.put(str(tmp_path / "run") + "/", "/bucket/run/", recursive=True)
    with open_run("memory://bucket/run") as run:
        assert run.sql("select count(*) from steps").fetchall() == [(4,)]


def test_a_run_at_a_uri_is_made_and_added_to():
    import fsspec

    memory = fsspec.filesystem("memory")
    for rank in range(2):
        memory.pipe(f"/here/rank{rank}.json", kineto.document(kineto.training(), rank=rank, world_size=2).encode())
        ingest(f"memory://here/rank{rank}.json", "memory://made/run")
    with open_run("memory://made/run") as run:
        assert run.coverage() == "2 of 2 ranks"
        assert run.sql("select count(*) from steps").fetchall() == [(8,)]


def test_a_script_without_a_main_guard_may_ingest_several_traces(tmp_path):
    """Processes that read traces do not run the caller's script again."""
    for rank in range(2):
        kineto.write(tmp_path / "t" / f"{rank}.json", [kineto.step(0, 0, 10)], rank=rank, world_size=2)
    script = tmp_path / "script.py"
    script.write_text("import stepscope\nprint('once')\nprint(len(stepscope.ingest_traces('t', 'run').records))\n")
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.stdout.splitlines(), done.stderr) == (["once", "2"], "")


def test_a_process_id_in_a_file_name_is_no_rank(tmp_path):
    """torch's tensorboard_trace_handler names files host_pid.time; a job's own worker_name may carry a rank."""
    for name in ("vm_29284.1764600000000000000.pt.trace.json", "gpu7_3.pt.trace.json"):
        kineto.write(tmp_path / name, [kineto.step(0, 0, 10)], rank=None)
    ingest(str(tmp_path / "vm_29284.1764600000000000000.pt.trace.json"), tmp_path / "one")
    ingest(str(tmp_path / "gpu7_3.pt.trace.json"), tmp_path / "other")
    with open_run(tmp_path / "one") as one, open_run(tmp_path / "other") as other:
        assert ranks_of(one) == [(0, 0, "none", "ok")]
        assert ranks_of(other) == [(3, 0, "filename", "ok")]
