"""The collector's parts by themselves: arithmetic by hand, no torch."""

import json
import os
import signal
import threading

import pytest

from stepscope.collect import every
from stepscope.collect.hooks import _Lead
from stepscope.collect.launch import default_out
from stepscope.collect.session import Session
from stepscope.collect.steps import Loop, Steps
from stepscope.collect.timerlog import TimerLog, next_step, read_lines
from stepscope.collect.windows import Requests, Window
from stepscope.ingest.schema import TIMER


def test_steps_add_up_waits_of_several_batches() -> None:
    steps, loop = Steps(), Loop("list", native=False, since=0)
    steps.begin(100)
    steps.ask(110)
    steps.got(loop, 150)
    steps.ask(200)
    steps.got(loop, 205)
    assert (steps.start, steps.wait_start, steps.wait, steps.batches) == (100, 110, 45, 2)
    steps.finish()
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
    assert [step for step in range(30) if once.due(step)] == [10]
    assert [step for step in range(20) if often.due(step)] == [3, 8, 13, 18]
    with pytest.raises(ValueError, match="period"):
        every(3, active=3)


def test_first_slow_step_asks_once(tmp_path) -> None:
    requests = Requests(tmp_path, 3.0)
    assert [requests.slow(100) for _ in range(10)] == [False] * 10
    assert requests.slow(300) is False  # as slow as the limit is not slower
    assert requests.slow(301) is True
    assert requests.slow(10_000) is False


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


ROW = {
    "start_ns": 1_796_127_925_080_195_538,
    "end_ns": 1_796_127_925_080_195_600,
    "wait_start_ns": None,
    "wait_ns": None,
    "batches": None,
    "allocated": None,
    "reserved": None,
    "rss": 4096,
    "overhead_ns": 7,
    "profiled": False,
}


def test_timer_log_is_exact_survives_a_torn_line_and_goes_on_counting(tmp_path) -> None:
    log = TimerLog(tmp_path, 3, "s", next_step(tmp_path, 3))
    for step in range(3):
        log.append(step=step, **ROW)
    (live,) = tmp_path.glob("timer/rank=00003/s.jsonl")
    with live.open("ab") as file:
        file.write(b'{"rank":3,"session":"s","step":3,"start')
    rows = read_lines(live)
    assert rows.schema == TIMER
    assert rows.to_pylist() == [{"rank": 3, "session": "s", "step": step, **ROW} for step in range(3)]
    assert next_step(tmp_path, 3) == 3
    log.close()
    assert not live.exists()
    assert next_step(tmp_path, 3) == 3
    assert next_step(tmp_path, 2) == 0


def test_full_timer_files_are_sealed_while_the_next_one_grows(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("stepscope.collect.timerlog.ROTATE", 2)
    log = TimerLog(tmp_path, 0, "s", 0)
    for step in range(5):
        log.append(step=step, **ROW)
    log.close()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)
    names = sorted(path.name for path in tmp_path.glob("timer/*/*"))
    assert names == ["s.1.parquet", "s.2.parquet", "s.parquet"]
    assert next_step(tmp_path, 0) == 5


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
        lead(optimizer, (), {})
    assert count.steps == 3
    for _ in range(4):  # the critic steps no more: the other one, at its second step since, takes over
        lead(generator, (), {})
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
