import json

from stepscope.reports.json import envelope

from ..support.fake_run import MS, FakeRun, loader_bound


def test_the_envelope_is_json_with_integers_and_nulls():
    told = json.loads(json.dumps(envelope(loader_bound()), allow_nan=False))
    assert told["schema"] == "stepscope/analysis/1"
    assert told["coverage"] == "2 of 2 ranks"
    assert told["verdict"] == told["findings"][0]["sentence"]
    assert told["findings"][0]["lost_ns_per_step"] == 59 * MS
    assert isinstance(told["findings"][0]["lost_ns_per_step"], int)
    assert told["findings"][3]["lost_ns_per_step"] is None
    assert told["findings"][0]["rank"] is None
    assert told["invariants"][2]["holds"] is None
    assert {row["rank"] for row in told["ledger_by_rank"]} == {0, 1}
    assert told["headline"]["steps_judged"] == 76


def test_an_empty_run_has_nulls_not_zeros():
    told = json.loads(json.dumps(envelope(FakeRun()), allow_nan=False))
    assert told["ledger"] == []
    assert told["headline"]["mean_step_ns"] is None
    assert told["headline"]["device_busy"] is None
    assert told["headline"]["timed_steps"] is None
