"""Run the benchmarks: ``python -m benchmarks [--only NAME]``."""

from __future__ import annotations

import argparse
import os
from importlib import import_module

from .result import save, show

NAMES = (
    "load",
    "memory",
    "collector",
    "window",
    "matching",
    "snapshot",
    "loader",
)  # each a module here with measure() -> (figures, why skipped or '')


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure ratios and bounds side by side.")
    parser.add_argument("--only", choices=NAMES, help="run one benchmark")
    only = parser.parse_args().only
    os.environ.pop("OPENBLAS_CORETYPE", None)  # the same BLAS kernels for everyone
    for name in [only] if only else NAMES:
        print(f"{name}:", flush=True)
        figures, skipped = import_module(f"benchmarks.{name}").measure()
        save(name, figures, skipped)
        if skipped:
            print(f"  not measured: {skipped}")
        for one in figures:
            target = f"  (target {one.target}: {'met' if one.met else 'NOT MET'})" if one.target else ""
            print(f"  {one.what}: {show(one)}{target}", flush=True)


if __name__ == "__main__":
    main()
