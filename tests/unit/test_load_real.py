"""Real traces: every row as json and exact decimals read it, and every key of the header."""

import gzip
import json
from decimal import Decimal

import duckdb
import pytest

from stepscope.ingest.load import Limits, load

TRACES = [
    "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "hta/critical_path/end_to_end/simple_add/output/overlaid_critical_path_trace.json.gz",
    "hta/execution_trace/benchmark_simple_add_trace.json.gz",
    "hta/nccl_parser_config/nccl_data.json.gz",
    "hta/rank_non_gpu/rank_non_gpu.json.gz",
    "hta/trace_compare/base/base.json.gz",
    "kineto-resnet50/num_workers_4/worker0.1623212756351.pt.trace.json.gz",
    "param-dlrm/worker3_step_12.1694128201557.pt.trace.json.gz",
    "tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz",
    "tracelens/sglang_decode/sglang_Qwen3-8B_decode.json.gz",
]


@pytest.mark.parametrize("trace", TRACES)
def test_rows_and_header(shared, trace):
    document = json.loads(gzip.decompress((shared / trace).read_bytes()), parse_float=Decimal)
    expected = [
        (
            i,
            *(event.get(key) for key in ("ph", "cat", "name")),
            *(str(event[key]) for key in ("pid", "tid")),
            *(None if key not in event else int(Decimal(event[key]) * 1000) for key in ("ts", "dur")),
        )
        for i, event in enumerate(document.pop("traceEvents"))
    ]
    for size in (1 << 16, 4 << 20):
        with duckdb.connect() as con:
            loaded = load(str(shared / trace), con, limits=Limits(slice_bytes=size))
            query = "SELECT event_id, ph, cat, name, pid, tid, ts_ns, dur_ns FROM raw ORDER BY event_id"
            assert con.execute(query).fetchall() == expected
        assert (loaded.verdict, loaded.format, loaded.events) == ("ok", "kineto", len(expected))
        assert loaded.header == json.loads(json.dumps(document, default=float))
        assert loaded.base_ns == document.get("baseTimeNanoseconds", 0)


@pytest.mark.parametrize("block", [1000, 4096, 65536])
@pytest.mark.parametrize("start", [0, 20_000])
def test_two_real_ranks_written_into_each_other(shared, tmp_path, block, start):
    a, b = (gzip.decompress(next(shared.glob(f"param-dlrm/worker{n}_*")).read_bytes()) for n in (0, 1))
    parts = [a[:start], b[:start]]
    for i in range(start, max(len(a), len(b)), block):
        parts += [a[i : i + block], b[i : i + block]]
    (tmp_path / "t.json").write_bytes(b"".join(parts))
    with duckdb.connect() as con:
        loaded = load(str(tmp_path / "t.json"), con)
        assert con.execute("SELECT count(*) FROM raw").fetchall() == [(0,)]
    assert loaded.verdict == "quarantined"
    assert "written into each other" in loaded.reason


def test_json_that_is_no_trace(shared):
    for name in ("hta/execution_trace/benchmark_simple_add_et.json.gz", "hta/memory_analysis/memory_timeline.raw.gz"):
        with duckdb.connect() as con:
            loaded = load(str(shared / name), con)
        assert (loaded.verdict, loaded.no_trace) == ("quarantined", True)
