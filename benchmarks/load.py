"""Loading a real trace against HolisticTraceAnalysis, which has a virtual environment of its own.

Both tools stand ready in a warm process each and load the same file in turn.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from .result import Figure

HERE = Path(__file__).parent
TRACE = HERE.parents[1] / "shared/traces/hta/df_index_resolver/df_index_resolver.json.gz"
PEER = "HolisticTraceAnalysis==0.5.0"
PEER_VENV = HERE / ".cache" / "hta"
ROUNDS = 5

OURS = """
import shutil, sys, tempfile
from pathlib import Path
from time import perf_counter
import duckdb
import stepscope, stepscope.api
from stepscope.ingest.capture import build_capture
from stepscope.ingest.load import load
from stepscope.pipeline import MEMORY_LIMITS, ingest
import stepscope.reports.html

def read(trace, folder):
    with duckdb.connect(config={"memory_limit": MEMORY_LIMITS[1]}) as con:
        load(trace, con)

def events(trace, folder):
    with duckdb.connect(config={"memory_limit": MEMORY_LIMITS[1]}) as con:
        build_capture(con, 1, load(trace, con).base_ns, folder / "events.parquet")

def whole(trace, folder):
    ingest(trace, folder / "run")

def page(trace, folder):
    ingest(trace, folder / "run")
    with stepscope.open_run(folder / "run") as run:
        run.report(folder / "report.html")

tasks = {"read": read, "events": events, "ingest": whole, "page": page}
"""
THEIRS = """
import logging, sys, tempfile
from pathlib import Path
from time import perf_counter
from hta.trace_analysis import TraceAnalysis
logging.disable(logging.CRITICAL)

def load(trace, folder):
    TraceAnalysis(trace_files={0: trace}, trace_dir="/")

tasks = {"hta": load}
"""
SERVE = """
for line in sys.stdin:
    name, trace = line.rstrip("\\n").split("\\t")
    with tempfile.TemporaryDirectory() as folder:
        begun = perf_counter()
        tasks[name](trace, Path(folder))
        print("seconds", perf_counter() - begun, flush=True)
"""


class Server:
    """A warm process that runs a task when asked and tells how long it took."""

    def __init__(self, python: Path | str, program: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", program + SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, task: str, trace: Path) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{task}\t{trace}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("seconds "):
                return float(line.split()[1])
        raise RuntimeError(f"the process for {task} ended with {self._process.wait()}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure() -> tuple[list[Figure], str]:
    if not TRACE.exists():
        return [], "the trace df_index_resolver is not in ../shared/traces beside this checkout"
    if problem := _install():
        return [], problem
    servers = {"ours": Server(sys.executable, OURS), "theirs": Server(PEER_VENV / "bin" / "python", THEIRS)}
    seconds: dict[str, list[float]] = defaultdict(list)
    for turn in range(ROUNDS + 1):
        for task, who in (
            ("read", "ours"),
            ("events", "ours"),
            ("hta", "theirs"),
            ("ingest", "ours"),
            ("page", "ours"),
        ):
            took = servers[who].seconds(task, TRACE)
            if turn:  # the first turn warms up
                seconds[task].append(took)
    for server in servers.values():
        server.close()
    return _figures({task: median(all_of) for task, all_of in seconds.items()}), ""


def _install() -> str:
    """Make the peer's environment; return why that is impossible, or ''."""
    if (PEER_VENV / ".ready").exists():
        return ""
    pip = [PEER_VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PEER]
    for command in ([sys.executable, "-m", "venv", PEER_VENV], pip):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"{PEER} cannot be installed: {done.stderr.strip().splitlines()[-1]}"
    (PEER_VENV / ".ready").touch()
    return ""


def _figures(seconds: dict[str, float]) -> list[Figure]:
    how = f"df_index_resolver.json.gz, median of {ROUNDS} in turn, warm processes, imports excluded; "
    peer = f"HTA 0.5.0's TraceAnalysis(...) took {seconds['hta']:.2f} s"
    rows = [
        ("read", "reading alone", "load: every event as a row, exact, nothing judged"),
        ("events", "trace to the run's events file", "load and build_capture"),
        ("ingest", "whole ingest", "stepscope.ingest into a new run: hash, events, ledger and all other tables"),
        ("page", "trace to HTML page", "stepscope.ingest, open_run, report"),
    ]
    figures = []
    for task, what, timed in rows:
        target = ">= 8" if task == "events" else ""
        told = f"{how}{timed}: {seconds[task]:.2f} s; {peer}"
        figures.append(Figure(f"HTA's load / our {what}", seconds["hta"] / seconds[task], "x", target, told))
    figures.append(Figure("Trace to HTML page", seconds["page"], "s", "", how + rows[3][2]))
    return figures
