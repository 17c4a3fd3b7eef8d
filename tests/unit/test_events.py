"""The table ``events`` against what a hand-made trace says: nothing lost, nothing invented."""

from __future__ import annotations

import json

from stepscope.api import open_run
from stepscope.pipeline import ingest

from ..support import kineto
from ..support.kineto import launch, span, step


def run_of(tmp_path, events):
    ingest(str(kineto.write(tmp_path / "rank0.json", events)), tmp_path / "run")
    return open_run(tmp_path / "run")


def test_args_are_null_without_args_and_keep_what_has_no_column(tmp_path):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "bare", "pid": 1, "tid": 1, "ts": 10, "dur": 1},
        span("cpu_op", "empty", 20, 1, **{"External id": 3}),
        span("cpu_op", "triton", 30, 1, stream=0, grid="grid(1,)"),
        span("cuda_runtime", "hipMemcpy", 40, 1, stream="0x0", correlation=9),
        {"ph": "i", "s": "g", "name": "mark", "pid": 1, "tid": 1, "ts": 50, "args": {"device": 2}},
        span("kernel", "k", 60, 1, correlation=9, grid=[1, 1, 1]),
    ]
    rows = run_of(tmp_path, events).sql("select name, args from events").fetchall()
    assert {name: args and json.loads(args) for name, args in rows} == {
        "bare": None,
        "empty": None,
        "triton": {"stream": 0, "grid": "grid(1,)"},
        "hipMemcpy": {"stream": "0x0"},
        "mark": {"device": 2},
        "k": {"grid": [1, 1, 1]},
    }


def test_a_synchronisation_stands_on_its_device(tmp_path):
    wait = {"ph": "X", "cat": "cuda_sync", "name": "Event Sync", "pid": 1, "tid": -1, "ts": 200, "dur": 30}
    wait["args"] = {"stream": -1, "device": 1, "wait_on_stream": 7}
    run = run_of(tmp_path, [step(0, 0, 1000), *launch(1, 50, 60, 200), wait])
    assert run.sql("select device, stream, thread, args from events where kind = 'sync'").fetchall() == [
        (1, "-1", None, '{"wait_on_stream":7}')
    ]
