"""ORACLES C and D: kernels, operators and what ingestion must keep."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

QWEN = "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
FALCONSAI = "tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz"
BERT = "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz"


@pytest.mark.parametrize(
    ("trace", "events", "names", "sum_ns", "short"),
    [
        (QWEN, 1465, 26, 45_432_698, 152),
        (FALCONSAI, 154, 14, 1_220_926, 115),
        (BERT, 60, 11, 388_344, 54),
    ],
)
def test_kernel_totals(shared_run, trace, events, names, sum_ns, short):
    run = shared_run(trace)
    assert run.sql("select sum(calls), count(distinct name), sum(sum_ns) from kernels").fetchall()[0] == (
        events,
        names,
        sum_ns,
    )
    assert run.sql("select count(*) from events where kind = 'kernel' and dur_ns < 10000").fetchall()[0] == (short,)


def test_largest_kernel_of_qwen(shared_run):
    name, calls, sum_ns = (
        shared_run(QWEN).sql("select name, calls, sum_ns from kernels order by sum_ns desc").fetchall()[0]
    )
    assert name.startswith("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroup")
    assert (calls, sum_ns) == (241, 12_789_918)


def test_top_operator_of_falconsai(shared_run):
    row = (
        shared_run(FALCONSAI).sql("select name, calls, device_ns from operators order by device_ns desc").fetchall()[0]
    )
    assert row == ("aten::addmm", 73, 735_037)


def test_nccl_metadata(shared_run):
    run = shared_run("hta/nccl_parser_config/*.json.gz")
    assert run.sql("select count(*), count(bytes), count(pg) from collectives").fetchall()[0] == (21, 21, 21)
    op, size, dtype, pg, group = run.sql(
        "select op, bytes, dtype, pg, group_size from collectives order by end_ns - start_ns desc"
    ).fetchall()[0]
    assert (op, size, dtype.lower(), pg, group) == ("all_reduce", 2_049_000 * 4, "float", "0", 2)


def test_df_index_resolver(shared_run):
    run = shared_run("hta/df_index_resolver/*.json.gz")
    assert run.sql("select events, rank, verdict from sources").fetchall()[0] == (216_092, 1, "ok")
    assert run.sql("select count(*) from events").fetchall()[0] == (216_092,)
    (file,) = run.path.glob("events/*/*.parquet")
    assert pq.read_table(file, columns=["event_id"])["event_id"].to_pylist() == list(range(216_092))  # in file order
    assert run.sql("select count(*) from collectives where op = 'all_reduce'").fetchall()[0] == (2_020,)
    assert run.sql("select world_size, device_name from ranks").fetchall()[0] == (2, "Tesla V100-SXM2-32GB")


def test_sync_events_on_stream_minus_one(shared_run):
    run = shared_run("hta/critical_path/cuda_event_sync/*.json.gz")
    assert run.sql("select count(*) from events where kind = 'sync' and stream = '-1'").fetchall()[0] == (3,)


def test_triton_operator_and_the_start_of_its_trace(shared_run):
    run = shared_run("hta/triton_example/*.json.gz")
    operators = run.sql(
        "select count(*) from events where kind = 'operator' and name = 'triton_poi_fused_add_cos_sin_0'"
    )
    assert operators.fetchall() == [(1,)]
    exact = 1_727_743_122_000_000_000 + 2_413_669_096_090_100
    assert run.sql("select start_ns from steps").fetchall() == [(exact,)]
    assert run.sql("select start_ns from ranks").fetchall() == [(exact,)]


def test_a_trace_without_device_work_has_null_answers_with_a_reason(shared_run):
    run = shared_run("hta/rank_non_gpu/*.json.gz")
    assert run.sql("select count(*) from device_time").fetchall()[0] == (0,)
    assert run.sql("select count(device_ns), count(*) > 0 from operators").fetchall()[0] == (0, True)
    assert run.sql("select count(*) from quality where rule = 'no_device_work'").fetchall()[0] == (1,)
    operators = run.sql("select count(*) from events where json_extract_string(args, '$.cat') is null").fetchall()[0]
    assert operators[0] >= 2_424


def test_a_gloo_rank_of_three_hundred(shared_run):
    run = shared_run("hta/cpu_only/*.json.gz")
    assert run.sql("select rank, world_size, backend, devices from ranks").fetchall()[0] == (34, 300, "gloo", 0)
    assert run.coverage().startswith("1 of 300 ranks; missing 0, 1, 2")
    assert run.sql("select count(*), min(op), min(bytes) > 0 from collectives").fetchall()[0] == (
        10,
        "all_reduce",
        True,
    )
    assert run.sql("select count(*) from ledger where category = 'data_wait'").fetchall()[0] == (0,)


def test_execution_trace_is_no_trace_when_named(shared, tmp_path):
    from stepscope.api import open_run
    from stepscope.pipeline import ingest

    ingest(str(shared / "hta/execution_trace/benchmark_simple_add_et.json.gz"), tmp_path / "named")
    with open_run(tmp_path / "named") as run:
        assert run.sql("select verdict, reason <> '' from sources").fetchall()[0] == ("quarantined", True)
    ingest(str(shared / "hta/execution_trace"), tmp_path / "walked")
    with open_run(tmp_path / "walked") as run:
        assert run.sql("select count(*) from sources").fetchall()[0] == (1,)
