"""Oracle F: real dumps of 16 ranks in which two ranks were made to fail."""

from __future__ import annotations

import pytest

from stepscope.analyze.hang import judge
from stepscope.ingest.flight_recorder import read_dumps


@pytest.mark.parametrize(
    ("name", "kind", "ranks"), [("gpu_error_1st", "stopped", [12, 14]), ("lock_gil_1st", "missing", [9, 14])]
)
def test_the_injected_ranks_are_named(shared, name, kind, ranks):
    dumps, problems = read_dumps([str(shared / "flight-recorder" / name)])
    assert (len(dumps), problems) == (16, [])
    verdict = judge(dumps)
    assert (verdict.kind, verdict.ranks) == (kind, ranks)
