"""The collector's parts by themselves: arithmetic by hand, no torch."""

import json
import math
import os
import signal
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscope.collect import every
from stepscope.collect.appender import Appender
from stepscope.collect.hooks import _Lead
from stepscope.collect.launch import default_out
from stepscope.collect.session import Session
from stepscope.collect.steps import Loop, Steps
from stepscope.collect.timerlog import TimerLog, next_step
from stepscope.collect.windows import Requests, Window
from stepscope.ingest.schema import TIMER
from stepscope.ingest.timer_rows import ROW, read_rows, rescue, shared_path


def test_steps_add_up_waits_of_several_batches() -> None:
    steps, loop = Steps(), Loop("list", native=False, since=0)
    steps.begin(100)
    steps.ask(110)
    steps.got(loop, 150)
    steps.ask(200)
    steps.got(loop, 205)
    assert (steps.start, steps.wait_start, steps.wait, steps.batches) == (100, 110, 45, 2)
    steps.step += 1
    steps.begin(300)
    assert (steps.step, steps.wait_start, steps.wait, steps.batches) == (1, None, 0, 0)


def test_a_loop_that_ends_takes_its_part_of_the_step_with_it() -> None:
    steps, train, validation = Steps(), Loop("train", False, 0), Loop("validation", False, 0)
    steps.begin(0)
    steps.ask(1)
    steps.got(validation, 2)
    assert steps.depends_on(validation)  # nothing else fed the step: it begins anew at the next request

    steps.begin(10)
    steps.ask(11)
    steps.got(train, 12)
    steps.ask(13)
    steps.got(validation, 14)
    assert not steps.depends_on(validation)  # the step still has train's batch


def test_schedule() -> None:
    once, often = Window(first=10), every(5, active=2, first=3)
    assert [step for step in range(30) if once.next_due(step) == step] == [10]
    assert [step for step in range(20) if often.next_due(step) == step] == [3, 8, 13, 18]
    with pytest.raises(ValueError, match="period"):
        every(3, active=3)


def test_what_is_slow_is_known_after_ten_steps_and_once(tmp_path) -> None:
    requests = Requests(tmp_path, 3.0)
    for recent, limit in ((9, math.inf), (1, 300.0)):
        requests.recent.extend([100] * recent)
        requests.judge()
        assert requests.slow_from == limit
    requests.had_slow()
    requests.judge()
    assert requests.slow_from == math.inf


def test_trigger_file_is_answered_once_a_touch(tmp_path) -> None:
    (tmp_path / "trigger").touch()
    requests = Requests(tmp_path, None)
    assert requests.asked() is False  # it was there before
    os.utime(tmp_path / "trigger", ns=(1, 1))
    assert [requests.asked(), requests.asked()] == [True, False]
    (tmp_path / "trigger").unlink()
    assert requests.asked() is False
    (tmp_path / "trigger").touch()
    assert [requests.asked(), requests.asked()] == [True, False]


def test_signal_asks_and_the_previous_handler_is_kept(tmp_path) -> None:
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        requests = Requests(tmp_path, None)
        requests.listen()
        signal.raise_signal(signal.SIGUSR1)
        assert heard == [signal.SIGUSR1]
        assert [requests.asked(), requests.asked()] == [True, False]
        requests.close()
        signal.raise_signal(signal.SIGUSR1)
        assert len(heard) == 2
        assert requests.asked() is False
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_signals_are_left_alone_outside_of_the_main_thread(tmp_path) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    thread = threading.Thread(target=lambda: Requests(tmp_path, None).listen())
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGUSR1) is before


STAMPS = 1_796_127_925_080_195_538, 1_796_127_925_080_195_600
NO_LOADER = (*STAMPS, 0, 0, -1, 7, False)
FED = (*STAMPS, STAMPS[0] + 5, 40, 2, 7, True)


def told(rank: int, step: int, rss: int | None = None, fed: bool = False) -> dict[str, object]:
    """Return the row that the two above are, as a reader gets it."""
    waited = (STAMPS[0] + 5, 40, 2) if fed else (None, None, None)
    return dict(zip(TIMER.names, (rank, "s-1-x", step, *STAMPS, *waited, None, None, rss, 7, fed), strict=True))


def test_timer_rows_are_exact_wherever_they_stand(tmp_path) -> None:
    """In shared memory after a kill, in lines of which the last is torn, in Parquet at the end."""
    folder = tmp_path / "timer" / "rank=00003"
    log = TimerLog(tmp_path, 3, "s-1-x", next_step(tmp_path, 3))
    log.append(0, *NO_LOADER)
    log.append(1, *FED)
    expected = [told(3, 0), told(3, 1, fed=True)]
    assert read_rows(folder).to_pylist() == expected
    log.flush({"rss": 4096})
    expected[1]["rss"] = 4096
    log.append(2, *NO_LOADER)
    (live,) = folder.glob("*.jsonl")
    with live.open("ab") as file:
        file.write(b'{"rank":3,"session":"s-1-x","step":9,"start')
    assert read_rows(folder).schema == TIMER
    assert read_rows(folder).to_pylist() == [*expected, told(3, 2)]
    assert next_step(tmp_path, 2) == 0
    log.close()
    assert not live.exists()
    assert not shared_path("s-1-x").exists()


def test_what_a_killed_session_left_in_memory_goes_on_in_the_next(tmp_path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    session = f"20261201T000000-{dead.pid}-abcdef"
    log = TimerLog(tmp_path, 0, session, 0)
    try:
        for step in range(3):
            log.append(step, *NO_LOADER)
            if step == 1:
                log.flush()
        torn = shared_path(session).read_bytes()
        # a kill in the midst of writing: all of the row but its step, over a row that is in the run
        with shared_path(session).open("r+b") as file:
            file.seek(ROW.size)
            file.write(ROW.pack(*NO_LOADER, 99)[:-8])
        assert read_rows(tmp_path / "timer/rank=00000")["step"].to_pylist() == [0, 1, 2]
        assert next_step(tmp_path, 0) == 3
        assert not shared_path(session).exists(), torn
        assert read_rows(tmp_path / "timer/rank=00000")["step"].to_pylist() == [0, 1, 2]
    finally:
        shared_path(session).unlink(missing_ok=True)


def test_a_living_session_keeps_its_memory(tmp_path) -> None:
    session = f"20261201T000000-{os.getpid()}-abcdef"
    log = TimerLog(tmp_path, 0, session, 0)
    log.append(0, *NO_LOADER)
    rescue(tmp_path / "timer/rank=00000")
    assert shared_path(session).exists()
    log.close()


def test_without_shared_memory_every_row_goes_into_the_run(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("stepscope.ingest.timer_rows.SHARED", tmp_path / "none")
    log = TimerLog(tmp_path, 0, "s-1-x", 0)
    assert log.append(0, *NO_LOADER) is True  # full
    log.flush()
    assert log.append(1, *NO_LOADER) is True
    log.close()
    assert read_rows(tmp_path / "timer/rank=00000")["step"].to_pylist() == [0, 1]


def test_garbage_of_others_does_not_keep_a_job_from_being_recorded(tmp_path) -> None:
    folder = tmp_path / "timer" / "rank=00000"
    folder.mkdir(parents=True)
    for name in ("a.parquet", "b.jsonl", "20261201T000000-nobody-x.jsonl"):
        (folder / name).write_bytes(b"\x00garbage\n[1]\n{}\nnull\n")
    (folder / "d.parquet").mkdir()
    pq.write_table(pa.table({"step": ["seven"]}), folder / "c.parquet")
    (folder / "good.jsonl").write_bytes(b'{"rank":0,"session":"good","step":6,"start_ns":1,"end_ns":2}\n')
    said: list[str] = []
    assert read_rows(folder, said.append)["step"].to_pylist() == [6]
    assert [name for name in ("a.parquet", "c.parquet", "d.parquet") if not any(name in one for one in said)] == []
    assert next_step(tmp_path, 0) == 7


def test_full_timer_files_are_sealed_while_the_next_one_grows(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("stepscope.collect.timerlog.ROTATE", 2)
    log = TimerLog(tmp_path, 0, "s-1-x", 0)
    for step in range(5):
        log.append(step, *NO_LOADER)
        log.flush()
    log.close()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)
    names = sorted(path.name for path in tmp_path.glob("timer/*/*"))
    assert names == ["s-1-x.1.parquet", "s-1-x.2.parquet", "s-1-x.parquet"]
    assert next_step(tmp_path, 0) == 5


def test_rows_never_go_into_a_file_of_the_job(tmp_path) -> None:
    """The job closes descriptors that it does not know, and its own next files get their numbers."""
    appender = Appender(tmp_path / "rows")
    appender.write(b"1\n")
    os.close(appender._fd)
    appender.write(b"2\n")
    with open(tmp_path / "theirs", "wb") as theirs:
        os.dup2(theirs.fileno(), appender._fd)
        assert appender.check() is True  # opened anew; theirs stays open
        appender.write(b"3\n")
        appender.close()
        theirs.write(b"mine\n")
    assert (tmp_path / "rows").read_bytes() == b"1\n2\n3\n"
    assert (tmp_path / "theirs").read_bytes() == b"mine\n"


def test_leading_optimizer_ends_the_steps() -> None:
    class Optimizer:
        pass

    class Count:
        steps = 0

        def boundary(self) -> None:
            self.steps += 1

    critic, generator, count = Optimizer(), Optimizer(), Count()
    lead = _Lead(count)  # type: ignore[arg-type]
    for optimizer in (critic, generator) * 3:
        lead(optimizer)
    assert count.steps == 3
    for _ in range(4):  # the critic steps no more: the other one, at its second step since, takes over
        lead(generator)
    assert count.steps == 7


def test_ranks_of_one_launcher_agree_on_the_default_directory(monkeypatch) -> None:
    monkeypatch.setenv("RANK", "0")
    first = default_out("train.py")
    monkeypatch.setenv("RANK", "1")
    assert default_out("train.py") == first
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job7")
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert default_out("a/train.py").as_posix() == "runs/train-job7-29500"


def test_rank_comes_from_the_environment_and_session_file_tells_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "8")
    session = Session(tmp_path / "run", None)
    session.close()
    (path,) = (tmp_path / "run").glob("sessions/rank=00005/*.json")
    facts = json.loads(path.read_text())
    assert (facts["rank"], facts["world_size"], facts["session"]) == (5, 8, session.id)
