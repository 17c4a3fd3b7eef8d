"""The collector in real jobs: killed, launched by torchrun, or run unchanged by ``stepscope run``."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import stepscope
from stepscope.ingest.timer_rows import read_rows

pytest.importorskip("torch")

TRAIN = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
torch.set_num_threads(1)
data = DataLoader(TensorDataset(torch.randn(240, 8)), batch_size=8, shuffle=True)
validation = DataLoader(TensorDataset(torch.randn(40, 8)), batch_size=8)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for index, (batch,) in enumerate(data):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        if index == 20:
            for (batch,) in validation:
                model(batch)
print([p.tolist() for p in model.parameters()], torch.get_rng_state().sum().item(), sys.argv[1:], __name__)
"""

ENDLESS = """
import itertools, sys, time, torch, stepscope
def batches():
    for number in itertools.count():
        time.sleep(0.002)
        yield number
for number in stepscope.watch(batches(), sys.argv[1], window=eval(sys.argv[2])):
    print(number, flush=True)
"""

DISTRIBUTED = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
dist.init_process_group("gloo")
data = DataLoader(TensorDataset(torch.randn(160, 8)), batch_size=8)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (batch,) in data:
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def python(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run Python on ``arguments`` and return what it said."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **options,
    )


def timer_steps(run: Path, rank: int = 0) -> list[int]:
    """Return the numbers of a rank's finished steps, whether live or sealed."""
    return sorted(read_rows(run / "timer" / f"rank={rank:05d}")["step"].to_pylist())


@pytest.fixture
def script(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "script.py"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("seen", "window"),
    [
        (1, None),
        (333, None),
        (60, "stepscope.every(10**6, active=10**5, first=5)"),  # while a window records
        (60, "stepscope.every(10, active=2, first=5)"),  # while traces are converted
    ],
)
def test_a_killed_job_leaves_every_finished_step(tmp_path, script, seen, window) -> None:
    run = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, script(ENDLESS), run, str(window)], stdout=subprocess.PIPE, text=True
    ) as job:
        for _ in range(seen + 1):  # when batch n reaches the loop, steps 0..n-1 are finished
            line = job.stdout.readline()
        job.send_signal(signal.SIGKILL)
    assert int(line) == seen
    steps = timer_steps(run)
    assert steps == list(range(len(steps)))
    assert len(steps) >= seen
    with stepscope.open_run(run) as readable:
        assert readable.sql("select count(*) from timer").fetchall() == [(len(steps),)]


def test_a_loop_without_torch_is_timed_and_loads_nothing_heavy(tmp_path, script) -> None:
    job = script("import sys, stepscope\n"
        "assert list(stepscope.watch(range(30), 'run')) == list(range(30))\n"
        "assert not {'torch', 'duckdb', 'pandas', 'matplotlib'} & set(sys.modules)\n")  # fmt: skip
    done = python(job, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert timer_steps(tmp_path / "run") == list(range(30))


OWN_PROFILER = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
counts = []
schedule = torch.profiler.schedule(wait=7, warmup=3, active=2, repeat=2)
with torch.profiler.profile(schedule=schedule, on_trace_ready=lambda p: counts.append(len(p.events()) > 9)) as own:
    for (batch,) in DataLoader(TensorDataset(torch.randn(240, 8)), batch_size=8):
        model(batch).sum().backward()
        optimizer.step()
        own.step()
print(counts)
"""


def test_a_script_that_profiles_itself_keeps_its_traces(tmp_path, script) -> None:
    done = python("-m", "stepscope.cli", "run", "--out", tmp_path / "run", "--window", "8:3:9", script(OWN_PROFILER))
    assert (done.returncode, done.stdout) == (0, "[True, True]\n"), done.stderr
    assert timer_steps(tmp_path / "run") == list(range(30))


def test_signal_reaches_a_job_that_trains(tmp_path, script) -> None:
    job = script("import os, signal, itertools, stepscope\n"
        "for n in stepscope.watch(range(5), 'run'):\n"
        "    os.kill(os.getpid(), signal.SIGUSR1)\n")  # fmt: skip
    done = python(job, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert timer_steps(tmp_path / "run") == list(range(5))


def test_run_changes_nothing_of_an_unchanged_script(tmp_path, script) -> None:
    path, run = script(TRAIN), tmp_path / "run"
    bare = python(path, "--lr", "3")
    collected = python("-m", "stepscope.cli", "run", "--out", run, "--keep-raw", path, "--lr", "3")
    assert bare.returncode == collected.returncode == 0, collected.stderr
    assert collected.stdout == bare.stdout
    assert timer_steps(run) == list(range(60))  # an optimizer step each; validation is no step


BROKEN_OFF = """
import torch
from torch.utils.data import DataLoader, TensorDataset
def loader():
    return DataLoader(TensorDataset(torch.randn(80, 8)), batch_size=8, num_workers=1, persistent_workers=True)
data, validation, model = loader(), loader(), torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def validate():
    for index, (batch,) in enumerate(validation):
        if index == 2:
            break
for epoch in range(2):
    for index, (batch,) in enumerate(data):
        if index in (3, 6):
            validate()
        model(batch).sum().backward()
        optimizer.step()
        if index in (4, 7):
            validate()
"""


@pytest.mark.parametrize("optimizer", [True, False])
def test_validation_broken_off_is_no_part_of_a_step(tmp_path, script, optimizer) -> None:
    """Persistent workers keep the iterator alive, so nobody tells that the loop over it was left."""
    text = BROKEN_OFF if optimizer else BROKEN_OFF.replace("optimizer", "# ")
    if not optimizer:
        text = text.replace("if index in (3, 6):", "if False:").replace(
            "if index in (4, 7):", "if index == 8:\n            break\n        if False:"
        )
    run = tmp_path / "run"
    done = python("-m", "stepscope.cli", "run", "--out", run, "--window", "off", script(text))
    assert done.returncode == 0, done.stderr
    (path,) = run.glob("timer/*/*.parquet")
    batches = pq.read_table(path, partitioning=None)["batches"].to_pylist()
    # Validation within the body, after the step's own batch, belongs to the step; between two steps it does not.
    assert batches == ([1, 1, 1, 4, 1, 1, 4, 1, 1, 1] * 2 if optimizer else [1] * 16)


def test_run_counts_batches_where_there_is_no_optimizer(tmp_path, script) -> None:
    path = script(TRAIN.split("optimizer = ")[0] + "for (batch,) in data:\n    model(batch)\n")
    done = python("-m", "stepscope.cli", "run", "--out", tmp_path / "run", path)
    assert done.returncode == 0, done.stderr
    assert timer_steps(tmp_path / "run") == list(range(30))


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('no luck')", 1, "no luck"),
        ("def f(): raise ValueError('mine')\nf()", 1, "ValueError: mine"),
        ("raise EOFError('mine')", 1, "EOFError: mine"),
        ("import click; raise click.UsageError('mine')", 1, "UsageError: mine"),
    ],
)
def test_run_ends_as_the_script_would(tmp_path, script, body, code, said) -> None:
    path = script(body)
    bare = python(path)
    done = python("-m", "stepscope.cli", "run", "--out", tmp_path / "run", path)
    assert done.returncode == bare.returncode == code
    assert said in done.stderr
    assert bare.stderr in done.stderr


def test_run_gives_the_script_its_own_path_and_name(tmp_path, script) -> None:
    path = script("import sys, helper\nprint(sys.argv, sys.path[0], __name__, __file__, helper.x)")
    (tmp_path / "helper.py").write_text("x = 5")
    bare = python(path, "a", "--help")
    done = python("-m", "stepscope.cli", "run", "--out", tmp_path / "run", path, "a", "--help")
    assert done.stdout == bare.stdout


def test_run_without_the_script_is_a_usage_error(tmp_path) -> None:
    done = python("-m", "stepscope.cli", "run", tmp_path / "missing.py")
    assert done.returncode == 2
    assert "missing.py" in done.stderr
    done = python("-m", "stepscope.cli", "run", "--window", "often", "x.py")
    assert done.returncode == 2
    assert "often" in done.stderr


def test_run_under_torchrun_collects_every_rank_into_one_run(tmp_path, script) -> None:
    launch = (
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--standalone",
        "-m",
        "stepscope.cli",
        "run",
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = python(*launch, "--window", "100:2:5", "--keep-raw", script(DISTRIBUTED), cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()  # both ranks chose the same default
    for rank in (0, 1):
        assert timer_steps(run, rank) == list(range(20))
        (session,) = run.glob(f"sessions/rank=0000{rank}/*.json")
        facts = json.loads(session.read_text())
        assert (facts["rank"], facts["world_size"], facts["backend"]) == (rank, 2, "gloo")
        assert facts["loaders"][0]["batch_size"] == 8
        assert len(list(run.glob(f"raw/rank=0000{rank}/*-5.pt.trace.json.gz"))) == 1
    with stepscope.open_run(run) as opened:  # torch's recorder tells what gloo's spans do not
        rows = opened.sql(
            "select rank, pg, group_size, seq - min(seq) over (), match is not null from collectives where step in (5, 6) order by all"
        )
        assert rows.fetchall() == [(rank, "0", 2, place, True) for rank in (0, 1) for place in (0, 1)]
