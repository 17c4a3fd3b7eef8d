"""Peak memory of ingesting a memory snapshot of 1 GB, and whether what comes out is right."""

from __future__ import annotations

import os
import pickle
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import stepscope

from .result import Figure

SIZE = 1_000_000_000
FOLDER = Path(__file__).parent / ".cache" / "snapshot"
KEYS = ("action", "alloc", "free_completed", "addr", "size", "time_us", "frames", "stream", "compile_context", "N/A")
FRAMES, STACKS, DEPTH = 3000, 2000, 40
HELD = 1000  # blocks that are alive at once


def measure() -> tuple[list[Figure], str]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        peak = write_snapshot(FOLDER / "snapshot.pickle", SIZE)
        begun = perf_counter()
        command = [
            sys.executable,
            "-m",
            "stepscope",
            "ingest",
            str(FOLDER / "snapshot.pickle"),
            "-o",
            str(FOLDER / "run"),
        ]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = perf_counter() - begun
        with stepscope.open_run(FOLDER / "run") as run:
            ((found,),) = run.sql("select peak from memory_peaks").fetchall()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    if found != peak:
        raise RuntimeError(f"the snapshot's peak is {peak} bytes, and {found} were found")
    how = f"max RSS of `stepscope ingest`; took {seconds:.0f} s; the peak is right to the byte"
    return [Figure("Peak memory, 1 GB memory snapshot", usage.ru_maxrss * 1024 / 1e6, "MB", "<= 1000", how)], ""


def write_snapshot(path: Path, size: int) -> int:
    """Write a snapshot of about ``size`` bytes and return its peak: block i has i % 997 + 1 bytes and is freed HELD later.

    It is written opcode by opcode, as pickle would: keys, frames and stacks once and referred to, a memo entry an event.
    """
    shared = b"](" + b"".join(_text(key) + _put(i) for i, key in enumerate(KEYS))
    first = len(KEYS)
    for i in range(FRAMES):
        frame = {"name": f"fn{i}", "filename": f"/job/mod{i % 97}.py"}
        items = b"".join(_text(k) + _text(v) for k, v in frame.items()) + _text("line") + b"J" + struct.pack("<i", i)
        shared += b"}(" + items + b"u" + _put(first + i)
    stacks = first + FRAMES
    parts = [shared]
    for i in range(STACKS):
        parts.append(
            b"](" + b"".join(_get(first + (i * 7 + j * 13) % FRAMES) for j in range(DEPTH)) + b"e" + _put(stacks + i)
        )
    live = peak = event = 0
    with path.open("wb") as file:
        file.write(
            b"\x80\x03}(" + _text("allocator_settings") + b"".join(parts) + b"e" + _text("device_traces") + b"](]("
        )
        while file.tell() < size:
            batch = []
            for _ in range(500):
                block, freed = event // 2, event // 2 - HELD
                if event % 2 == 0:
                    live += block % 997 + 1
                    batch.append(_event("alloc", block, event, stacks))
                elif freed >= 0:
                    live -= freed % 997 + 1
                    batch.append(_event("free_completed", freed, event, stacks))
                peak = max(peak, live)
                event += 1
            file.write(b"".join(batch) + b"e(")
        file.write(b"ee" + _text("segments"))
        last = range(max(0, event // 2 - HELD), event // 2)
        blocks = [{"address": _address(i), "size": i % 997 + 1, "state": "active_allocated"} for i in last]
        file.write(pickle.dumps([{"device": 0, "total_size": 10**6, "blocks": blocks}], 3)[2:-1] + b"u.")
    return peak


def _event(action: str, block: int, event: int, stacks: int) -> bytes:
    size = block % 997 + 1
    return (
        b"}("
        + _get(0) + _get(KEYS.index(action))
        + _get(3) + b"\x8a\x06" + _address(block).to_bytes(6, "little")
        + _get(4) + b"M" + struct.pack("<H", size)
        + _get(5) + b"\x8a\x07" + (1_700_000_000_000_000 + event).to_bytes(7, "little")
        + _get(6) + _get(stacks + event % STACKS)
        + _get(7) + b"K\0" + _get(8) + _get(9)
        + b"u" + _put(stacks + STACKS + event)
    )  # fmt: skip


def _address(block: int) -> int:
    return 0x10_0000_0000 + block % (4 * HELD) * 4096


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def _put(i: int) -> bytes:
    return b"r" + struct.pack("<I", i)


def _get(i: int) -> bytes:
    return bytes((0x68, i)) if i < 256 else b"j" + struct.pack("<I", i)
