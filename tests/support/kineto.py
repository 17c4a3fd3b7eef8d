"""Hand-made Kineto traces: small, with stamps in µs that a reader can check by eye."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASE_NS = 1_700_000_000_000_000_000
HOST, DEVICE = 100, 0


def span(cat: str, name: str, start: float, dur: float | None, **args: Any) -> dict[str, Any]:
    """Return a complete event; device work goes to stream 7 of device 0, the rest to the main thread."""
    device = cat in ("kernel", "gpu_memcpy", "gpu_memset")
    event: dict[str, Any] = {"ph": "X", "cat": cat, "name": name, "ts": start, "dur": dur}
    event |= {"pid": DEVICE, "tid": 7} if device else {"pid": HOST, "tid": HOST}
    if device:
        args = {"device": 0, "stream": 7, **args}
    return {**event, "args": args} if args else event


def step(number: int, start: float, dur: float) -> dict[str, Any]:
    """Return a step marker."""
    return span("user_annotation", f"ProfilerStep#{number}", start, dur)


def loader(start: float, dur: float, workers: bool = False) -> dict[str, Any]:
    """Return a loader's ``next()``."""
    kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
    return span("user_annotation", f"enumerate(DataLoader)#{kind}.__next__", start, dur)


def launch(correlation: int, start: float, kernel_start: float, kernel_dur: float, name: str = "gemm", **args: Any):
    """Return a launch on the host and its kernel."""
    return [
        span("cuda_runtime", "cudaLaunchKernel", start, 5, correlation=correlation),
        span("kernel", name, kernel_start, kernel_dur, correlation=correlation, **args),
    ]


def header(rank: int | None = 0, world_size: int = 1, **more: Any) -> dict[str, Any]:
    """Return what a current Kineto writes around the events."""
    told: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "Hand-made", "totalGlobalMem": 1 << 30}],
    }
    if rank is not None:
        told["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world_size}
    return {**told, "displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS, **more}


def document(events: list[dict[str, Any]], **of_header: Any) -> str:
    """Return a whole trace as text."""
    return json.dumps({**header(**of_header), "traceEvents": events}, indent=1)


def write(path: Path, events: list[dict[str, Any]], **of_header: Any) -> Path:
    """Write a whole trace."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document(events, **of_header))
    return path


def training(steps: int = 4, first_us: float = 1000.0) -> list[dict[str, Any]]:
    """Return a healthy run: steps of 1000 µs, a 900 µs kernel each, launched 50 µs into the step, no loader recorded."""
    events: list[dict[str, Any]] = []
    for at in range(steps):
        start = first_us + 1000 * at
        events += [step(at, start, 1000), *launch(at + 1, start + 50, start + 60, 900)]
        events.append(span("cpu_op", "aten::mm", start + 40, 40))
    return events
