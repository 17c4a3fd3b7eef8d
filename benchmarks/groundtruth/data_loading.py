"""Data loading against the truth: is the planted cause named, how large is it said to be, are predictions kept?

``python -m benchmarks.groundtruth.data_loading [--only TEXT] [--write docs/accuracy.md]``. Wants a quiet machine.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import torch

import stepscope
from stepscope.analyze.findings.finding import LEAST_SHARE
from stepscope.analyze.findings.loader_cause import cause
from stepscope.analyze.whatif import measure, predict

from .plants import CASES, PAIRS, Case, Pair, Setup, burn

BEGIN, END = "<!-- data loading: begin -->", "<!-- data loading: end -->"


def record(setup: Setup) -> Path:
    """Train over one pass of a setup and return its run."""
    run = Path(tempfile.mkdtemp(prefix="stepscope-groundtruth-")) / "run"
    with stepscope.profile(run, window=None) as prof:
        for _ in prof.data(setup.loader()):
            burn(setup.work)
            prof.step()
    return run


def _steady_ms(run: Path) -> float:
    with stepscope.open_run(run) as opened:
        return measure(opened).step_ns / 1e6


def judge(case: Case) -> list[str]:
    """Return a case's row: planted, named, lost time true and estimated, and whether all is as it should be."""
    run = record(case.planted())
    with stepscope.open_run(run) as opened:
        found = [one for one in opened.findings().to_dict("records") if one["kind"] == "loader_bound"]
        why = cause(opened, 0) if found else None
    if case.healthy is None:
        worst = max((one["share"] for one in found), default=0.0)
        return [case.name, "nothing", why.name if why else "nothing", "0", f"{worst:.1%}", _kept(worst <= LEAST_SHARE)]
    true = _steady_ms(run) - _steady_ms(record(case.healthy()))
    named = why.name if why else "not told" if found else "nothing"
    lost = why.lost_ns / 1e6 if why else float("nan")
    kept = named in case.named and abs(lost - true) <= 0.1 * true
    return [case.name, " or ".join(case.named), named, f"{true:.2f} ms", f"{lost:.2f} ms", _kept(kept)]


def foretell(pair: Pair) -> tuple[list[str], float]:
    """Return a pair's row and the prediction's error: recorded, changed, predicted and real step."""
    with stepscope.open_run(record(_setup(pair, pair.recorded))) as opened:
        measured = measure(opened)
    found = predict(measured, **pair.changed)
    real = _steady_ms(record(_setup(pair, pair.changed)))
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
    return Setup(pair.dataset, settings["workers"], pair.work, options)


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
    parser.add_argument("--write", type=Path, help="the page that takes the tables, between its marks")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for case in CASES:
        if asked.only in case.name:
            rows.append(judge(case))
            print(*rows[-1], sep=" | ", flush=True)
    pairs, errors = [], []
    for pair in PAIRS:
        if asked.only in f"pair {_told(pair.recorded)} {_told(pair.changed)}":
            row, error = foretell(pair)
            pairs.append(row)
            errors.append(abs(error))
            print(*row, sep=" | ", flush=True)
    parts = [
        _table(["planted", "counts as named", "named", "lost, true", "lost, estimated", "within 10 %"], rows),
        _table(["samples", "recorded", "changed", "replay", "predicted", "real", "error", "kept"], pairs),
    ]
    if errors:
        parts.append(f"Median error of the predictions {median(errors):.1%}, worst {max(errors):.1%}.")
    text = "\n\n".join(parts)
    if asked.write is None:
        print(text)
        return
    page = asked.write.read_text() if asked.write.exists() else f"# Accuracy\n\n{BEGIN}\n{END}\n"
    before, rest = page.split(BEGIN)
    asked.write.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
