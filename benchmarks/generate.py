"""Large Kineto traces with a ledger that is known beforehand.

Every step is the same twelve-odd milliseconds of training, moved in time: a loader call, a copy to the device, layers
(operator, inner operator, launch, kernel, flow), an all-reduce, the optimizer, a synchronization. So the text of a step
is one template with its stamps and ids left open, and writing goes at the disk's speed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

LAYERS = 496
EVENTS_PER_STEP = 6 * LAYERS + 16
BASE_NS = 1_790_857_026_000_000_000
FIRST_US = 5_273_910_205_100
STEP_US = 12_800
IDS = 2 * LAYERS + 64  # correlations and external ids a step uses
_LAST = 700 + 20 * LAYERS  # when the layers are launched, in us of the step; the last kernel ends 2.5 us later

# What a step's time went to, worked out from the stamps below: ns by category.
LEDGER = {
    "compute": LAYERS * 12_500,
    "exposed_comm": 500_000,  # nothing computes during the all-reduce
    "exposed_copy": 100_000,
    "unclassified": 0,
    "data_wait": 500_000,
    "sync": 50_000,
    "allocator": 0,
    "host": 35_000
    + 10_000
    + (LAYERS - 1) * 7_500
    + 15_000
    + 100_000,  # copy_, first layer, gaps, collective, optimizer
}
MARKER_NS = 12_000_000
LEDGER["unexplained"] = MARKER_NS - sum(LEDGER.values())

_NAMES = ("aten::linear", "aten::layer_norm", "aten::gelu", "aten::matmul", "aten::scaled_dot_product_attention")
_KERNELS = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(Params)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)>",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>",
)


def write_trace(path: Path, size: int) -> int:
    """Write a trace of at least ``size`` bytes, pretty-printed as torch's own.

    Returns:
        The number of its steps.
    """
    template, offsets, strides = _step_template()
    with path.open("wb", buffering=1 << 20) as file:
        file.write(_HEADER % {b"base": BASE_NS})
        step = 0
        while file.tell() < size:
            values = offsets + step * strides
            file.write(template % tuple(values.tolist()))
            step += 1
        end = FIRST_US + step * STEP_US
        file.write(_FOOTER % {b"start": FIRST_US - 100, b"end": end})
    return step


_HEADER = b"""{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84942979072,
      "computeMajor": 9, "computeMinor": 0, "numSms": 132
    }
  ],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
  "record_shapes": 1,
  "host_name": "generated",
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": %(base)d,
  "traceEvents": [
"""
_FOOTER = b"""  {
    "ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler",
    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": %(start)d.000
  },
  {
    "ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": %(end)d.000
  }
  ], "traceName": "generated.json"
}
"""


class _Template:
    """Collects events; every integer left open is an offset that grows by a stride from step to step."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.offsets: list[int] = []
        self.strides: list[int] = []

    def open(self, value: int, stride: int) -> str:
        self.offsets.append(value)
        self.strides.append(stride)
        return "%d"

    def stamp(self, us: float) -> str:
        whole, ns = divmod(round(us * 1000), 1000)
        return f"{self.open(FIRST_US + whole, STEP_US)}.{ns:03d}"

    def identifier(self, number: int) -> str:
        return self.open(number + 1, IDS)

    def span(self, cat: str, name: str, tid: int, start: float, dur: float, pid: int = 4242, **args: int | str) -> None:
        """Add a complete event. Of ``args``, integers are ids and text is JSON as it stands."""
        head = (
            f'  {{\n    "ph": "X",\n    "cat": "{cat}",\n    "name": "{name}",\n    "pid": {pid},\n    "tid": {tid},\n'
            f'    "ts": {self.stamp(start)},\n    "dur": {dur:.3f}\n    ,\n    "args": {{\n      '
        )
        told = [f'"{key}": {self.identifier(one) if isinstance(one, int) else one}' for key, one in args.items()]
        self.text.append(head + ", ".join(told) + "\n    }\n  },\n")

    def flow(self, ph: str, number: int, tid: int, at: float, pid: int = 4242) -> None:
        """Add one end of an arrow from a launch to its kernel."""
        end = ', "bp": "e"' if ph == "f" else ""
        self.text.append(f'  {{\n    "ph": "{ph}", "id": {self.identifier(number)}, "pid": {pid}, "tid": {tid}, ')
        self.text.append(f'"ts": {self.stamp(at)},\n    "cat": "ac2g", "name": "ac2g"{end}\n  }},\n')


def _step_template() -> tuple[bytes, np.ndarray, np.ndarray]:
    """Return a step's text with its integers open, their values in step 0, and how they grow a step."""
    text = _Template()
    text.text.append('  {\n    "ph": "X",\n    "cat": "user_annotation",\n    "name": "ProfilerStep#')
    text.text.append(text.open(0, 1))
    text.text.append(f'",\n    "pid": 4242,\n    "tid": 4242,\n    "ts": {text.stamp(0)},\n    "dur": 12000.000\n')
    text.text.append(f'    ,\n    "args": {{\n      "External id": {text.identifier(0)}\n    }}\n  }},\n')
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    text.span("user_annotation", loader, 4242, 10, 500, **{"External id": 1})
    text.span("cpu_op", "aten::copy_", 4242, 515, 35, **{"External id": 2, "Input Dims": "[[32, 2048], [32, 2048]]"})
    _launch(text, "cudaMemcpyAsync", 3, 520, 20)
    device = {"External id": 2, "device": "0", "context": "1", "stream": "7", "correlation": 3}
    copied = {"bytes": "262144", "memory bandwidth (GB/s)": "2.62144"}
    text.span("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 7, 550, 100, pid=0, **device, **copied)
    text.flow("f", 3, 7, 550, pid=0)
    for layer in range(LAYERS):
        _layer(text, layer, 700 + 20 * layer)
    _all_reduce(text, 2 * LAYERS + 8)
    text.span("cpu_op", "Optimizer.step#AdamW.step", 4242, _LAST + 600, 100, **{"External id": 2 * LAYERS + 10})
    _launch(text, "cudaDeviceSynchronize", 2 * LAYERS + 11, _LAST + 710, 50)
    memory = '"Total Reserved": 34359738368, "Total Allocated": 21474836480, "Bytes": 262144, "Addr": 140012345678848'
    text.text.append('  {\n    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 4242, ')
    text.text.append(f'"tid": 4242, "ts": {text.stamp(_LAST + 720)},\n    "args": {{{memory}, ')
    text.text.append('"Device Id": 0, "Device Type": 1, "Ev Idx": 7}\n  },\n')
    return "".join(text.text).encode(), np.array(text.offsets), np.array(text.strides)


def _launch(text: _Template, name: str, number: int, start: float, dur: float) -> None:
    ids: dict[str, int | str] = {"External id": number, "cbid": "211", "correlation": number}
    text.span("cuda_runtime", name, 4242, start, dur, **ids)
    text.flow("s", number, 4242, start)


def _layer(text: _Template, layer: int, at: float) -> None:
    outer, inner = 4 + 2 * layer, 5 + 2 * layer
    shapes = {"Input Dims": "[[32, 2048, 1024], [1024, 4096]]", "Input type": '["c10::BFloat16", "c10::BFloat16"]'}
    name = _NAMES[layer % len(_NAMES)]
    text.span("cpu_op", name, 4242, at, 18, **{"External id": outer, **shapes})
    text.span("cpu_op", name.replace("::", "::_"), 4242, at + 1, 14, **{"External id": inner, **shapes})
    _launch(text, "cudaLaunchKernel", inner, at + 3, 5)
    where = {"External id": inner, "queued": "0", "device": "0", "context": "1", "stream": "7", "correlation": inner}
    shape = {"registers per thread": "168", "shared memory": "98304", "grid": "[512, 1, 1]", "block": "[256, 1, 1]"}
    text.span("kernel", _KERNELS[layer % len(_KERNELS)], 7, at + 10, 12.5, pid=0, **where, **shape)
    text.flow("f", inner, 7, at + 10, pid=0)


def _all_reduce(text: _Template, number: int) -> None:
    told = {
        "Collective name": '"allreduce"',
        "dtype": '"BFloat16"',
        "In msg nelems": "1048576",
        "Out msg nelems": "1048576",
        "Group size": "8",
        "Process Group Name": '"0"',
    }
    text.span("cpu_op", "record_param_comms", 4242, _LAST + 5, 25, **{"External id": number, **told})
    _launch(text, "cudaLaunchKernelExC", number, _LAST + 10, 5)
    where = {"External id": number, "device": "0", "context": "1", "stream": "20", "correlation": number}
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    text.span("kernel", name, 20, _LAST + 20, 500, pid=0, **where, **told)
    text.flow("f", number, 20, _LAST + 20, pid=0)
