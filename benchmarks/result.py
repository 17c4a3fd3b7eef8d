"""What a benchmark hands back, where it was measured, and the page that shows it."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One number.

    Attributes:
        what: What was measured, in words that stand alone.
        value: The number.
        unit: ``x`` for ratios, ``%``, ``MB``, ``s``, ``ms``.
        target: What is promised, such as ``>= 8``; '' for none.
        how: Exactly what was timed and how often.
    """

    what: str
    value: float
    unit: str
    target: str
    how: str

    @property
    def met(self) -> bool | None:
        """Whether the target is reached, None without one."""
        if not self.target:
            return None
        sign, bound = self.target.split()
        return self.value >= float(bound) if sign == ">=" else self.value <= float(bound)


def machine() -> dict[str, Any]:
    """Describe the machine and the versions that matter."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    return {
        "cpu": ", ".join(sorted(models)) or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "os": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("stepscope", "duckdb", "pyarrow", "numpy", "pandas", "torch")},
    }


def save(name: str, figures: list[Figure], skipped: str) -> None:
    """Write one benchmark's result, and the page of all results anew."""
    RESULTS.mkdir(exist_ok=True)
    told = {"machine": machine(), "skipped": skipped, "figures": [asdict(one) for one in figures]}
    (RESULTS / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")
    (RESULTS / "README.md").write_text(_page())


def show(figure: Figure) -> str:
    """Return a figure's value with its unit."""
    digits = 0 if figure.unit == "MB" else 2
    return f"{figure.value:,.{digits}f} {figure.unit}"


def _page() -> str:
    lines = [
        "# Benchmark results",
        "",
        "Written by `make bench`; what is compared was measured side by side in one run.",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        told = json.loads(path.read_text())
        lines += [
            "",
            f"## {path.stem}",
            "",
            ", ".join(f"{key} {value}" for key, value in told["machine"].items()) + ".",
            "",
        ]
        if told["skipped"]:
            lines += [f"Not measured: {told['skipped']}", ""]
        if told["figures"]:
            lines += ["| what | result | target | met | how |", "|---|---:|---:|---|---|"]
        for one in (Figure(**row) for row in told["figures"]):
            met = {None: "", True: "yes", False: "**no**"}[one.met]
            lines.append(f"| {one.what} | {show(one)} | {one.target} | {met} | {one.how} |")
    return "\n".join(lines) + "\n"
