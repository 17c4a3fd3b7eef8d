"""ORACLES B: device timelines, exact in nanoseconds."""

from __future__ import annotations

import pytest

# trace -> policy -> columns of device_time. comp = compute kernels and memsets; "linked" = launch record in the trace.
EXACT = {
    "tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz": {
        policy: {"compute_ns": 1_225_310, "busy_ns": 1_225_310, "idle_ns": 6_334_534, "span_ns": 7_559_844}
        for policy in ("all", "linked")
    },
    "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": {
        "all": {
            "compute_ns": 45_644_932,
            "exposed_copy_ns": 2_368,
            "busy_ns": 45_647_300,
            "idle_ns": 4_005_532,
            "span_ns": 49_652_832,
        },
        "linked": {
            "compute_ns": 31_903_105,
            "exposed_copy_ns": 2_368,
            "busy_ns": 31_905_473,
            "idle_ns": 2_986_946,
            "span_ns": 34_892_419,
        },
    },
    "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz": {
        policy: {
            "compute_ns": 388_344,
            "exposed_copy_ns": 2_404,
            "busy_ns": 390_748,
            "idle_ns": 3_105_228,
            "span_ns": 3_495_976,
        }
        for policy in ("all", "linked")
    },
    "tracelens/mi300/resnet_act_checkpoint.json.gz": {
        "all": {
            "compute_ns": 26_174_953,
            "exposed_comm_ns": 55_371_257,
            "exposed_copy_ns": 2_455_846,
            "busy_ns": 84_002_056,
            "idle_ns": 2_565_652,
            "span_ns": 86_567_708,
            "comm_ns": 71_516_523,
            "copy_ns": 2_538_596,
        },
        "linked": {
            "compute_ns": 19_561_931,
            "exposed_comm_ns": 35_088_512,
            "exposed_copy_ns": 1_583_624,
            "busy_ns": 56_234_067,
            "idle_ns": 283_536,
            "span_ns": 56_517_603,
            "comm_ns": 47_200_310,
            "copy_ns": 1_633_426,
        },
    },
    "tracelens/torch_compile_triton/trace.json.gz": {
        policy: {"compute_ns": 12_549_021, "idle_ns": 11, "span_ns": 12_549_032} for policy in ("all", "linked")
    },
    "tracelens/mi210/gpu_only_trace.json.gz": {
        "all": {"compute_ns": 5_343_422, "idle_ns": 636_081, "span_ns": 5_979_503}
    },
    "tracelens/sglang_decode/sglang_Qwen3-8B_decode.json.gz": {
        policy: {
            "compute_ns": 9_759_749,
            "exposed_copy_ns": 13_177,
            "busy_ns": 9_772_926,
            "idle_ns": 463_977_017,
            "span_ns": 473_749_943,
        }
        for policy in ("all", "linked")
    },
}


@pytest.mark.parametrize("trace", EXACT)
def test_device_time_is_exact(shared_run, trace):
    rows = shared_run(trace).sql("from device_time").df().set_index("policy")
    for policy, columns in EXACT[trace].items():
        assert {name: int(rows.loc[policy, name]) for name in columns} == columns


def test_orphans_of_qwen(shared_run):
    run = shared_run("tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz")
    orphans, work = run.sql(
        "select count(*) filter (list_contains(flags, 'orphan')), count(*) from events "
        "where kind in ('kernel', 'copy', 'memset')"
    ).fetchall()[0]
    assert (orphans, work) == (509, 1707)
