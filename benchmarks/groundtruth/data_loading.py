"""Data loading against the truth: is the planted cause named, how large is it said to be, are predictions kept?

``python -m benchmarks.groundtruth.data_loading [--only TEXT] [--write docs/accuracy/data-loading.md]``. Wants a quiet
machine. What a cause truly costs is the difference between two runs, with it and without; what a healthy run loses to
its loader, that to a loop over batches that are there.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import warnings
from dataclasses import replace
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import torch

import stepscope
from stepscope.analyze.findings.finding import LEAST_SHARE
from stepscope.analyze.whatif import measure, predict

from .plants import CASES, PAIRS, Case, Pair, Setup, train, write_files

HEAD = """# Data loading: accuracy

Written by `make groundtruth` (`benchmarks/groundtruth/data_loading.py`): real runs on CPUs, each with a cause of known size.
What a cause costs in truth is the difference between a run with it and the median of three without; for healthy runs,
and where workers themselves are the cause, without means a loop over batches that are there already. Steps are told
without what the collector took. Kept: the cause is named first and its cost within 10 %, or for a healthy run, nothing above 1 %
is said; of predictions, within 15 %, within 20 % where cores are contended."""

WITHOUT = 3  # runs without the cause, of which the median counts


def record(setup: Setup, runs: Path, n: int = 0) -> Path:
    """Train over one pass of a setup, in a process of its own, and return its run; one that is there already will do."""
    told = re.sub(r" at 0x\w+", "", repr(setup))  # of functions only the names
    run = runs / f"{sha256(told.encode()).hexdigest()[:12]}-{n}"
    files = runs / "files"
    if setup.dataset.reads and not files.exists():
        write_files(files)
    if not run.exists():
        dataset = replace(setup.dataset, folder=files if setup.dataset.reads else None)
        begun = run.with_name(f".{run.name}.{os.getpid()}")  # what is broken off is not there
        job = get_context("spawn").Process(target=_train, args=(replace(setup, dataset=dataset), begun))
        job.start()
        job.join()
        if job.exitcode:
            raise RuntimeError(f"the job of {setup} ended with {job.exitcode}")
        begun.rename(run)
    return run


def _train(setup: Setup, run: Path) -> None:
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    torch.set_num_threads(1)
    with stepscope.profile(run, window=None) as prof:
        for _ in prof.data(setup.loader()):
            train(setup.work)
            prof.step()


def _step_ms(run: Path) -> float:
    """Return the mean steady step without what the collector itself says it took."""
    with stepscope.open_run(run) as opened:
        ((followed,),) = opened.sql("select count(*) from lineage").fetchall()
        ((mean, own),) = opened.sql(
            "select avg(end_ns - start_ns) / 1e6, avg(overhead_ns) / 1e6 from timer where step > 0"
        ).fetchall()
        return float((measure(opened).step_ns / 1e6 if followed else mean) - own)


def judge(case: Case, runs: Path) -> list[str]:
    """Return a case's row: planted, named, lost time true and estimated, and whether all is as it should be."""
    run = record(case.planted, runs)
    with stepscope.open_run(run) as opened:
        first = opened.findings().to_dict("records")[0]
    step = _step_ms(run)
    true = step - median(_step_ms(record(case.without, runs, n)) for n in range(WITHOUT))
    found = first["kind"] == "loader_bound"
    named = first["cause"] or "not told" if found else "nothing"
    lost = first["lost_ns_per_step"] / 1e6 if found else 0.0
    if case.named:
        kept = named in case.named and abs(lost - true) <= 0.1 * true
    else:
        kept = lost <= LEAST_SHARE * step
    return [
        *(case.name, " or ".join(case.named) or "nothing", named, f"{step:.2f} ms"),
        *(f"{true:.2f} ms", f"{lost:.2f} ms", f"{lost / true - 1:+.1%}" if case.named else "", _kept(kept)),
    ]


def foretell(pair: Pair, runs: Path) -> tuple[list[str], float]:
    """Return a pair's row and the prediction's error: recorded, changed, predicted and real step."""
    with stepscope.open_run(record(_setup(pair, pair.recorded), runs)) as opened:
        measured = measure(opened)
    found = predict(measured, **pair.changed)
    with stepscope.open_run(record(_setup(pair, pair.changed), runs)) as opened:
        real = measure(opened).step_ns / 1e6
    error = found.step_ns / 1e6 / real - 1
    what = ", ".join(f"{name} {value}" for name, value in vars(pair.dataset).items() if value)
    kept = abs(error) <= (0.20 if pair.contended else 0.15)
    row = [
        *(what, _told(pair.recorded), _told(pair.changed), f"{measured.error:+.1%}"),
        *(f"{found.step_ns / 1e6:.2f} ± {found.error_ns / 1e6:.2f} ms", f"{real:.2f} ms", f"{error:+.1%}", _kept(kept)),
    ]
    return row, error


def _setup(pair: Pair, settings: dict) -> Setup:
    options = {"prefetch_factor": settings["prefetch"]} if "prefetch" in settings else {}
    if "in_order" in settings:
        options["in_order"] = settings["in_order"]
    return Setup(pair.dataset, settings["workers"], options=options)


def _told(settings: dict) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _kept(holds: bool) -> str:
    return "yes" if holds else "no"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Run what was asked for and print, or write, the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only cases and pairs whose name holds this")
    parser.add_argument("--runs", type=Path, help="keep the runs there, and take those that are there")
    parser.add_argument("--write", type=Path, help="the page to write")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stepscope-groundtruth-") as temporary:
        text = _tables(asked.only, asked.runs or Path(temporary))
    if asked.write is None:
        print(text)
    else:
        asked.write.parent.mkdir(exist_ok=True)
        asked.write.write_text(f"{HEAD}\n\n{text}\n")


def _tables(only: str, runs: Path) -> str:
    runs.mkdir(exist_ok=True)
    cases, pairs, errors = [], [], []
    for case in CASES:
        if only in case.name:
            cases.append(judge(case, runs))
            print(*cases[-1], sep=" | ", flush=True)
    for pair in PAIRS:
        if only in f"pair {pair.dataset} {_told(pair.recorded)} {_told(pair.changed)}":
            row, error = foretell(pair, runs)
            pairs.append(row)
            errors.append(abs(error))
            print(*row, sep=" | ", flush=True)
    parts = [
        _table(["planted", "counts as named", "named", "step", "lost, true", "lost, told", "error", "kept"], cases),
        _table(["samples", "recorded", "changed", "replay", "predicted", "real", "error", "kept"], pairs),
    ]
    if errors:
        parts.append(f"Median error of the predictions {median(errors):.1%}, worst {max(errors):.1%}.")
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
