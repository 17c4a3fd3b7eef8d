"""What a collective is, on hand-made traces: only what the trace tells."""

from __future__ import annotations

import pytest

from stepscope.api import open_run
from stepscope.pipeline import ingest

from ..support import kineto
from ..support.kineto import launch, span, step

REDUCE, SENDRECV = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_SendRecv"


@pytest.mark.parametrize(
    ("around", "kernel", "metadata", "op"),
    [
        ("record_param_comms", REDUCE, {}, "all_reduce"),  # the scope does not tell, the kernel's name does
        ("nccl:all_to_all", SENDRECV, {}, "all_to_all"),
        ("record_param_comms", SENDRECV, {}, None),  # all_to_all, send and recv all run this kernel
        (None, SENDRECV, {}, None),
        ("nccl:send 0->1", SENDRECV, {}, "send"),
        ("record_param_comms", SENDRECV, {"Collective name": "recv"}, "recv"),
        ("record_param_comms", "ncclDevKernel_Broadcast", {"Collective name": "scatter"}, None),
    ],
)
def test_operation(tmp_path, around, kernel, metadata, op):
    scope = [span("user_annotation", around, 40, 100)] if around else []
    events = [step(0, 0, 1000), *scope, *launch(1, 50, 60, 200, kernel, **metadata)]
    ingest(str(kineto.write(tmp_path / "rank0.json", events)), tmp_path / "run")
    run = open_run(tmp_path / "run")
    assert run.sql("select op, end_ns - start_ns from collectives").fetchall() == [(op, 200_000)]
