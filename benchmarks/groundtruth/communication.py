"""Communication whose right answer is known: ``python -m benchmarks.groundtruth.communication [--only NAME] [--write PAGE]``.

Every experiment is a real gloo job of two to four ranks, each on a host and behind a rate-limited link of its own
(``links.py``), that trains as ``training.py`` says, with one fault planted or none. What it finds is held against what
was planted. Needs root and iproute2, and says so.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import stepscope
from stepscope.pipeline import ingest

from . import links
from .training import Plan

FAST, SLOW = "1gbit", "200mbit"
CAUSES = {  # what was planted -> how the finding must call it
    "sleep": "unexplained",
    "stall": "unexplained",
    "matmul": "compute than the others (aten::mm",
    "data": "data wait",
}
NAMING = ("straggler", "slow_link")  # findings that name a culprit


@dataclass(frozen=True)
class Answer:
    """One thing that was asked of a run."""

    what: str
    wanted: str
    got: str
    right: bool


@dataclass(frozen=True)
class Experiment:
    """A job, its links, and what is known of it."""

    name: str
    plan: Plan
    rates: tuple[str, ...] = (FAST,) * 3
    ahead_ms: dict[int, int] = field(default_factory=dict)  # written into the rank's stamps afterwards
    slow_link: int | None = None


def _planted(name: str, ranks: int = 3, ahead: dict[int, int] | None = None, **plan: Any) -> Experiment:
    return Experiment(name, Plan(out="", **plan), (FAST,) * ranks, ahead or {})


EXPERIMENTS = (
    _planted("ddp healthy"),
    _planted("fsdp healthy", model="fsdp"),
    _planted("all-to-all healthy", model="all_to_all"),
    _planted("ddp healthy, clock 50 ms ahead", 2, ahead={1: 50}),
    _planted("ddp sleep in forward", fault="sleep", on=1),
    _planted("ddp extra matmul", 2, fault="matmul", on=0),
    _planted("ddp slow data", 2, fault="data", on=1),
    _planted("ddp host stall", 2, fault="stall", on=1),
    _planted("ddp sleep, wandering", fault="sleep", on=-1),
    _planted("fsdp sleep in forward", model="fsdp", fault="sleep", on=2),
    _planted("fsdp extra matmul", 2, model="fsdp", fault="matmul", on=1),
    _planted("all-to-all slow data", model="all_to_all", fault="data", on=0),
    _planted("ddp sleep, clock 50 ms ahead", fault="sleep", on=1, ahead={1: 50}),
    _planted("fsdp slow data, clock 50 ms behind", 2, model="fsdp", fault="data", on=1, ahead={1: -50}),
    _planted("ddp slow data, windows apart", fault="data", on=1, shift=3),
    Experiment("sizes on 200 mbit", Plan(out="", model="sizes", steps=12, active=5, first=4), (SLOW,) * 3),
    Experiment("hsdp slow link", Plan(out="", model="hsdp"), ("400mbit", "80mbit", "400mbit", "400mbit"), slow_link=1),
)


def _record(one: Experiment, folder: Path) -> Path:
    """Run the job; return its run, ingested anew where its stamps are changed."""
    out = folder / "run"
    command = [
        sys.executable,
        "-m",
        "benchmarks.groundtruth.training",
        json.dumps(asdict(replace(one.plan, out=str(out)))),
    ]
    links.run(one.rates, command, {"OMP_NUM_THREADS": "1"})
    if not one.ahead_ms:
        return out
    for trace in sorted((out / "raw").rglob("*.json.gz")):
        rank = int(re.search(r"rank=(\d+)", str(trace))[1])  # type: ignore[index]
        with gzip.open(trace, "rt") as file:
            text = file.read()
        told = re.search(r'"baseTimeNanoseconds": *(\d+)', text)
        assert told is not None
        ahead = one.ahead_ms.get(rank, 0) * 1_000_000
        text = text.replace(told[0], f'"baseTimeNanoseconds": {int(told[1]) + ahead}')
        created = re.search(r'"created_ns": *\[([^]]*)\]', text)
        if created is not None:
            moved = json.dumps([int(ns) + ahead for ns in created[1].split(",")])
            text = text.replace(created[0], f'"created_ns": {moved}')
        with gzip.open(trace, "wt", compresslevel=1) as file:
            file.write(text)
    ingest(str(out / "raw"), folder / "shifted")
    return folder / "shifted"


def _culprit(one: Experiment, run: stepscope.Run) -> Iterator[Answer]:
    found = run.findings()
    named = found[found.kind.isin(NAMING)]
    if not one.plan.fault and one.slow_link is None:
        yield Answer("culprits", "none", "; ".join(named.sentence) or "none", named.empty)
        return
    first = found.iloc[0]
    on = one.plan.on if one.slow_link is None else one.slow_link
    who = "each in turn" if on < 0 else f"rank {on}"
    why = CAUSES.get(one.plan.fault, "link")
    right = (
        first.kind in NAMING and why in first.sentence and (first["rank"] == on if on >= 0 else first.isna()["rank"])
    )
    yield Answer("named first", f"{who}, {why}", first.sentence, bool(right))
    if one.plan.fault:
        wanted = _cost(one, run)
        got = first.lost_ns_per_step if first.kind == "straggler" else None
        off = f"{(got / wanted - 1) * 100:+.1f} %" if got else "unknown"
        near = bool(got) and abs(got / wanted - 1) <= 0.1
        yield Answer("charged a step", f"{wanted / 1e6:.2f} ms within 10 %", f"{(got or 0) / 1e6:.2f} ms ({off})", near)


def _cost(one: Experiment, run: stepscope.Run) -> float:
    """Return what the planted fault took in the judged steps, ns a step."""
    folder = Path(run.path).parent / "run"
    took = {int(step): ns for file in folder.glob("planted*.json") for step, ns in json.loads(file.read_text()).items()}
    judged = [step for (step,) in run.sql("select distinct step from judged").fetchall()]
    return sum(took.get(step, 0) for step in judged) / len(judged)


def _clocks(one: Experiment, run: stepscope.Run) -> Iterator[Answer]:
    """The hosts are one machine: the true offset is what was written into the stamps."""
    rows = run.sql("select rank, clock_offset_ns, clock_error_ns from ranks order by rank").fetchall()
    truth = {rank: (one.ahead_ms.get(0, 0) - one.ahead_ms.get(rank, 0)) * 10**6 for rank, _, _ in rows}
    inside = all(error is not None and abs(offset - truth[rank]) <= error for rank, offset, error in rows)
    told = ", ".join("unknown" if e is None else f"{o / 1e6:.2f} ± {e / 1e6:.2f}" for _, o, e in rows)
    yield Answer("clock offsets", ", ".join(f"{ns / 1e6:.0f}" for ns in truth.values()) + " ms inside", told, inside)


def _bandwidth(one: Experiment, run: stepscope.Run) -> Iterator[Answer]:
    shaped = float(one.rates[0].removesuffix("mbit")) * 1e6 / 8
    for op, link in run.sql("select op, link_bandwidth from fits order by op").fetchall():
        off = "unknown" if link is None else f"{link / 1e6:.2f} MB/s ({(link / shaped - 1) * 100:+.1f} %)"
        near = link is not None and abs(link / shaped - 1) <= 0.1
        yield Answer(f"bandwidth by {op}", f"{shaped / 1e6:.2f} MB/s within 10 %", off, near)


def _invariants(run: stepscope.Run) -> Iterator[Answer]:
    broken = run.sql("select name from invariants where not holds").fetchall()
    yield Answer("invariants broken", "none", str([name for (name,) in broken] or "none"), not broken)


def judge(one: Experiment, folder: Path) -> list[Answer]:
    """Run an experiment and hold its answers against the truth."""
    with stepscope.open_run(_record(one, folder)) as run:
        answers = [*_culprit(one, run), *_clocks(one, run), *_invariants(run)]
        return answers + (list(_bandwidth(one, run)) if one.plan.model == "sizes" else [])


def main() -> None:
    """Run all experiments, or some."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groundtruth.communication")
    parser.add_argument(
        "--only", action="append", choices=[one.name for one in EXPERIMENTS], help="run this one; repeatable"
    )
    parser.add_argument("--write", type=Path, help="write the answers to this page; rows of what is not run now stay")
    told = parser.parse_args()
    if why := links.why_not():
        sys.exit(why)
    answers: dict[str, list[Answer]] = {}
    for one in EXPERIMENTS:
        if told.only and one.name not in told.only:
            continue
        with tempfile.TemporaryDirectory(prefix="stepscope-truth-") as folder:
            answers[one.name] = judge(one, Path(folder))
        for answer in answers[one.name]:
            mark = "right" if answer.right else "WRONG"
            print(f"{mark}  {one.name}: {answer.what}: wanted {answer.wanted}, got {answer.got}", flush=True)
    if told.write:
        _write(told.write, answers)
    sys.exit(0 if all(answer.right for some in answers.values() for answer in some) else 1)


HEAD = """# Communication: accuracy

Written by `make groundtruth` (`benchmarks/groundtruth/communication.py`; needs root and iproute2): real gloo jobs on CPUs,
each rank a host of its own behind a rate-limited link of 1 Gbit/s (400 Mbit/s in the job with the slow link, 200 Mbit/s in
the one of many sizes), two cores for all. 50 ms are planted in every step on the rank named; the truth is measured where
it is planted. Asked: are rank and cause named first, is what each other rank loses within 10 %, is the true offset of every
clock inside the stated interval, and is the fitted bandwidth within 10 % of the link's? Link-level headers take 4.4 % of a link.
"""


def _write(page: Path, answers: dict[str, list[Answer]]) -> None:
    """Write the page, in the order of the experiments."""
    kept: dict[str, list[str]] = {}
    for line in page.read_text().splitlines() if page.exists() else []:
        cells = line.split(" | ")
        if len(cells) == 5 and cells[0].removeprefix("| ") in {one.name for one in EXPERIMENTS}:
            kept.setdefault(cells[0].removeprefix("| "), []).append(line)
    for name, some in answers.items():
        kept[name] = [
            f"| {name} | {one.what} | {one.wanted} | {one.got.replace('|', ' ')} | {'yes' if one.right else '**no**'} |"
            for one in some
        ]
    lines = [line for one in EXPERIMENTS for line in kept.get(one.name, [])]
    right = sum(line.endswith("| yes |") for line in lines)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f"{HEAD}\n{len(kept)} jobs, {right} of {len(lines)} answers right.\n\n"
        "| job | asked | wanted | got | right |\n|---|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main()
