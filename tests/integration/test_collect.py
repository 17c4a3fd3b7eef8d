"""The collector in this process, around real loops."""

import gzip
import itertools
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import stepscope  # noqa: E402
from stepscope.collect import Window  # noqa: E402
from stepscope.collect import loop as loop_module  # noqa: E402
from stepscope.ingest.sessions import collected  # noqa: E402
from stepscope.ingest.timer_rows import read_rows  # noqa: E402


@pytest.fixture(autouse=True)
def _sessions_end_with_the_test():
    yield
    while loop_module._watching:
        loop_module._watching.popitem()[1].close()


def timer(run: Path) -> list[dict]:
    """Return the timer rows of a run, whether live or sealed."""
    tables = [read_rows(folder) for folder in run.glob("timer/*")]
    return sorted(pa.concat_tables(tables).to_pylist(), key=lambda row: row["step"])


def traces(run: Path) -> list[dict]:
    """Return the raw traces of a run in order of their first step."""
    found = [json.loads(gzip.decompress(path.read_bytes())) for path in run.glob("raw/*/*.json.gz")]
    return sorted(found, key=lambda trace: trace["stepscope"]["first_step"])


def named(trace: dict, text: str) -> list[dict]:
    """Return a trace's complete events whose name holds ``text``, by start."""
    return sorted(
        (e for e in trace["traceEvents"] if text in str(e.get("name")) and e["ph"] == "X"),
        key=lambda e: e["ts"],
    )


def loader(batches: int = 20, **options) -> DataLoader:
    """Return a real loader of ``batches`` batches."""
    return DataLoader(TensorDataset(torch.randn(4 * batches, 8)), batch_size=4, **options)


def test_every_step_has_a_row_and_epochs_go_on_counting(tmp_path) -> None:
    data = loader(7)
    for _ in range(3):
        for _ in stepscope.watch(data, tmp_path, window=None):
            pass
    rows = timer(tmp_path)
    assert [row["step"] for row in rows] == list(range(21))
    assert all(row["batches"] == 1 for row in rows)
    assert all(0 < row["wait_ns"] <= row["end_ns"] - row["start_ns"] for row in rows)
    assert all(row["start_ns"] <= row["wait_start_ns"] for row in rows)
    counted = {row["step"] for row in collected(tmp_path, "host_memory").to_pylist()}
    for earlier, later in itertools.pairwise(rows):
        # Within an epoch steps follow one another without a gap, unless memory was read; between epochs there may be one.
        assert earlier["end_ns"] <= later["start_ns"]
        assert earlier["end_ns"] == later["start_ns"] or later["step"] % 7 == 0 or later["step"] in counted


def test_batches_pass_unchanged_and_the_rest_is_the_loaders_own(tmp_path) -> None:
    batches = [object(), object()]
    assert list(stepscope.watch(batches, tmp_path)) == batches
    assert list(stepscope.watch(iter(batches), tmp_path)) == batches
    data = loader(5)
    watched = stepscope.watch(data, tmp_path)
    assert len(watched) == 5
    assert watched.dataset is data.dataset
    with pytest.raises(AttributeError):
        _ = watched.nonsense
    with pytest.raises(TypeError):
        len(stepscope.watch(iter(batches), tmp_path))


def test_what_the_loop_raises_passes_and_the_broken_step_does_not_count(tmp_path) -> None:
    for number, error in enumerate((ValueError("mine"), KeyboardInterrupt())):
        run = tmp_path / str(number)

        def train(run=run, error=error):
            for index in stepscope.watch(range(10), run):
                if index == 3:
                    raise error

        with pytest.raises(type(error)) as caught:
            train()
        assert caught.value is error
        assert [row["step"] for row in timer(run)] == [0, 1, 2]


def test_what_the_loader_raises_passes(tmp_path) -> None:
    def broken():
        yield 1
        raise OSError("the disk of the data is gone")

    with pytest.raises(OSError, match="the disk of the data is gone"):
        list(stepscope.watch(broken(), tmp_path))


def test_a_break_leaves_its_step_uncounted_and_the_next_loop_goes_on(tmp_path) -> None:
    for _ in range(2):
        for index in stepscope.watch(range(10), tmp_path, window=None):
            if index == 4:
                break
    assert [row["step"] for row in timer(tmp_path)] == list(range(8))


def test_profile_counts_from_step_to_step(tmp_path) -> None:
    data = loader(6)
    with stepscope.profile(tmp_path / "a", window=None) as prof:
        for index, _ in enumerate(prof.data(data)):
            if index % 2:  # two batches a step
                prof.step()
    assert [(row["step"], row["batches"]) for row in timer(tmp_path / "a")] == [(0, 2), (1, 2), (2, 2)]

    with stepscope.profile(tmp_path / "b", window=None) as prof:
        for _ in range(4):  # without a loader, waits are unknown and not zero
            prof.step()
    rows = timer(tmp_path / "b")
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    assert all(row["wait_ns"] is row["wait_start_ns"] is row["batches"] is None for row in rows)


def test_the_end_of_the_loop_closes_a_step_that_has_batches(tmp_path) -> None:
    with stepscope.profile(tmp_path, window=None) as prof:
        for index, _ in enumerate(prof.data(loader(5))):
            if index % 2:
                prof.step()
    assert [(row["step"], row["batches"]) for row in timer(tmp_path)] == [(0, 2), (1, 2), (2, 1)]


def test_window_holds_the_scheduled_steps_under_the_jobs_own_numbers(tmp_path) -> None:
    window = stepscope.every(8, active=2, first=4, slow=None)
    with stepscope.profile(tmp_path, window=window, keep_raw=True) as prof:
        for _ in prof.data(loader(20)):
            torch.randn(8, 8) @ torch.randn(8, 8)
            prof.step()
    first, second = traces(tmp_path)
    assert [e["name"] for e in named(first, "ProfilerStep#")] == ["ProfilerStep#4", "ProfilerStep#5"]
    assert [e["name"] for e in named(second, "ProfilerStep#")] == ["ProfilerStep#12", "ProfilerStep#13"]
    assert (second["stepscope"]["first_step"], second["stepscope"]["steps"]) == (12, 2)
    assert len(named(first, "enumerate(DataLoader)#")) == 2
    rows = timer(tmp_path)
    assert [row["step"] for row in rows if row["profiled"]] == [4, 5, 12, 13]
    # Marker and row are the same step on the same clock.
    base = first["baseTimeNanoseconds"]
    marker = named(first, "ProfilerStep#5")[0]
    start = base + round(marker["ts"] * 1000)
    assert abs(start - rows[5]["start_ns"]) < 5_000_000


def test_raw_traces_become_parquet_and_go(tmp_path) -> None:
    with stepscope.profile(tmp_path, window=Window(first=4, active=2, slow=None)) as prof:
        for _ in prof.data(loader(20)):
            torch.randn(8, 8) @ torch.randn(8, 8)
            prof.step()
    assert not [path for path in tmp_path.glob("raw/*/*") if path.is_file()]
    with stepscope.open_run(tmp_path) as run:
        assert run.sql("select step, label from steps where source = 'profiler' order by step").fetchall() == [
            (4, "ProfilerStep#4"),
            (5, "ProfilerStep#5"),
        ]
        assert run.sql("select count(*) from steps").fetchall() == [(20,)]
        assert run.sql("select count(*) from events where name = 'aten::mm' and step in (4, 5)").fetchall() == [(2,)]


def test_a_failing_conversion_is_told_once_and_leaves_the_trace(tmp_path, caplog, monkeypatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with stepscope.profile(tmp_path, window=stepscope.every(4, active=1, first=2, slow=None)) as prof:
        for _ in prof.data(loader(12)):
            prof.step()
    assert len(list(tmp_path.glob("raw/*/*.pt.trace.json"))) == 3
    assert caplog.text.count("was not turned into Parquet") == 1


def test_other_iterables_show_in_the_window(tmp_path) -> None:
    class Stream:
        def __iter__(self):
            return iter(range(8))

    for _ in stepscope.watch(
        Stream(), tmp_path, window=stepscope.every(50, active=3, first=2, slow=None), keep_raw=True
    ):
        torch.randn(3)
    loop_module._watching.popitem()[1].close()
    (trace,) = traces(tmp_path)
    assert [e["name"] for e in named(trace, "enumerate")] == ["enumerate(stepscope)#Stream.__next__"] * 3


def test_window_ends_with_the_loop_and_tells_how_many_steps_are_whole(tmp_path) -> None:
    for _ in stepscope.watch(
        loader(5), tmp_path, window=stepscope.every(50, active=9, first=2, slow=None), keep_raw=True
    ):
        torch.randn(3)
    loop_module._watching.popitem()[1].close()
    (trace,) = traces(tmp_path)
    assert (trace["stepscope"]["first_step"], trace["stepscope"]["steps"]) == (2, 3)
    assert not torch.autograd._profiler_enabled()


def test_trigger_file_opens_a_window(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("stepscope.collect.session.TICK_NS", 0)
    with stepscope.profile(tmp_path, window=stepscope.every(10**6, first=10**6, slow=None), keep_raw=True) as prof:
        for index, _ in enumerate(prof.data(loader(20))):
            torch.randn(3)
            if index == 5:
                (tmp_path / "trigger").touch()
            prof.step()
    (trace,) = traces(tmp_path)
    assert [e["name"] for e in named(trace, "ProfilerStep#")] == [f"ProfilerStep#{n}" for n in (7, 8, 9)]


def test_the_jobs_own_profiler_goes_first(tmp_path, caplog) -> None:
    """Its schedule warms up, records and stops where our windows would be: it is left alone."""
    recorded = []
    schedule = torch.profiler.schedule(wait=1, warmup=2, active=2, repeat=2)
    with (
        torch.profiler.profile(schedule=schedule, on_trace_ready=lambda p: recorded.append(len(p.events()))) as own,
        stepscope.profile(tmp_path, window=stepscope.every(4, active=1, first=0, slow=None), keep_raw=True) as prof,
    ):
        for _ in prof.data(loader(40)):
            torch.randn(3)
            own.step()
            prof.step()
    assert len(recorded) == 2
    assert min(recorded) >= 2
    assert len(timer(tmp_path)) == 40
    assert traces(tmp_path) == []  # windows of ours between the job's own have crashed inside torch
    assert caplog.text.count("is using torch.profiler itself") == 1


def test_directory_that_cannot_be_a_run_is_told_once_and_training_goes_on(tmp_path, caplog) -> None:
    (tmp_path / "file").write_text("not a directory")
    with caplog.at_level(logging.WARNING, "stepscope"):
        assert list(stepscope.watch(range(30), tmp_path / "file")) == list(range(30))
    assert len([record for record in caplog.records if record.name == "stepscope"]) == 1


def test_directory_deleted_under_way_does_not_reach_the_loop(tmp_path, caplog) -> None:
    run = tmp_path / "run"
    with stepscope.profile(run, window=stepscope.every(4, active=1, first=6)) as prof:
        for index, _ in enumerate(prof.data(loader(20))):
            if index == 3:
                shutil.rmtree(run)
            prof.step()


def test_failing_write_is_told_once_and_switches_the_collector_off(tmp_path, caplog, monkeypatch) -> None:
    monkeypatch.setattr("stepscope.collect.session.TICK_NS", 0)  # every row goes into the run by itself
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:5]) if b'"step":3' in data else write(fd, data))
    with stepscope.profile(tmp_path, window=None) as prof:
        for _ in range(8):
            prof.step()
    assert [row["step"] for row in timer(tmp_path)] == [0, 1, 2]
    assert caplog.text.count("collector is off") == 1


def test_a_deleted_directory_is_told_once_and_recorded_anew(tmp_path, caplog, monkeypatch) -> None:
    monkeypatch.setattr("stepscope.collect.session.TICK_NS", 0)
    run = tmp_path / "run"
    with stepscope.profile(run, window=None) as prof:
        for step in range(9):
            if step == 4:
                shutil.rmtree(run)
            prof.step()
    with stepscope.open_run(run) as opened:
        assert [step for (step,) in opened.sql("select step from timer order by step").fetchall()] == [4, 5, 6, 7, 8]
        assert opened.sql("select count(*) from ranks").fetchall() == [(1,)]
    assert len([record for record in caplog.records if record.name == "stepscope"]) == 1
    assert "was deleted" in caplog.text


def test_a_job_that_closes_all_descriptors_goes_on_being_recorded(tmp_path, monkeypatch) -> None:
    """In a process of its own: pytest has descriptors too."""
    job = tmp_path / "job.py"
    job.write_text(
        "import os, stepscope, stepscope.collect.session as session\n"
        "session.TICK_NS = 0\n"
        "theirs = []\n"
        f"for n in stepscope.watch(range(40), {str(tmp_path / 'run')!r}, window=None):\n"
        "    if n == 9:\n"
        "        os.closerange(3, 4096)\n"
        f"        theirs = [open({str(tmp_path)!r} + f'/theirs{{i}}', 'w') for i in range(40)]\n"
    )
    done = subprocess.run([sys.executable, job], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [row["step"] for row in timer(tmp_path / "run")] == list(range(40))
    assert all(path.read_text() == "" for path in tmp_path.glob("theirs*"))


def test_two_loops_recorded_at_once_into_two_runs(tmp_path) -> None:
    """With an optimizer whose hooks both of them use."""
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    one, two = (stepscope.watch(loader(12), tmp_path / name, window=None) for name in "ab")
    for (batch,), (other,) in zip(one, two, strict=True):
        model(batch + other).sum().backward()
        optimizer.step()
    for name in "ab":
        assert [row["step"] for row in timer(tmp_path / name)] == list(range(12))


def test_forked_workers_leave_the_session_alone(tmp_path) -> None:
    class Nested(torch.utils.data.Dataset):
        """Uses the watched loop of the parent inside a worker process."""

        def __len__(self):
            return 8

        def __getitem__(self, index):
            prof.step()
            return index

    with stepscope.profile(tmp_path, window=None) as prof:
        seen = [int(i) for batch in prof.data(DataLoader(Nested(), batch_size=1, num_workers=2)) for i in batch]
    assert seen == list(range(8))
    assert [(row["step"], row["batches"]) for row in timer(tmp_path)] == [(0, 8)]


def test_sessions_of_one_run_share_its_numbers(tmp_path) -> None:
    for _ in range(2):
        with stepscope.profile(tmp_path, window=None) as prof:
            for _ in range(5):
                prof.step()
    assert [row["step"] for row in timer(tmp_path)] == list(range(10))


@pytest.mark.parametrize("workers", [0, 2])
def test_what_the_loop_computes_is_bit_identical(tmp_path, workers) -> None:
    def train(wrap):
        torch.manual_seed(7)
        data = loader(16, shuffle=True, num_workers=workers)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(2):
            for (batch,) in wrap(data):
                optimizer.zero_grad()
                loss = model(batch).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        return losses, [p.tolist() for p in model.parameters()], torch.get_rng_state().tolist()

    bare = train(lambda data: data)
    collected = train(lambda data: stepscope.watch(data, tmp_path, window=stepscope.every(4, active=2, first=1)))
    assert collected == bare
    assert len(timer(tmp_path)) == 32


def test_a_window_that_is_none_is_refused_before_the_loop(tmp_path) -> None:
    for make in (
        lambda: stepscope.watch([1], tmp_path / "run", window=5),
        lambda: stepscope.profile(tmp_path / "run", window=5),
    ):
        with pytest.raises(TypeError, match=r"stepscope\.every"):
            make()
