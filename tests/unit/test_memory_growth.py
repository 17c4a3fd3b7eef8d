"""Growth: a planted slope is found and told within its interval; noise, steps and plateaus are not called leaks."""

from __future__ import annotations

from itertools import combinations
from statistics import median

import numpy as np
import pyarrow as pa
import pytest

from stepscope.analyze.findings.memory import BLOCKS, GROWTH_SQL, _outside
from stepscope.api import open_run
from stepscope.ingest.schema import TIMER
from stepscope.ingest.writer import create_run, table_path, write_parquet

BASE = 400 * 2**20


@pytest.fixture
def judged(tmp_path):
    """Return a function from resident bytes (None where not read) to the growth findings and the query's row."""

    def judge(resident):
        run = create_run(tmp_path / "run", "test")
        rows = [
            {
                "rank": 0,
                "session": "s",
                "step": i,
                "start_ns": i * 10**7,
                "end_ns": (i + 1) * 10**7,
                "rss": n,
                "profiled": False,
            }
            for i, n in enumerate(resident)
        ]
        write_parquet(pa.Table.from_pylist(rows, schema=TIMER), table_path(run, "timer", 0, "s"))
        with open_run(run) as opened:
            found = opened.findings()
            row = opened.sql(GROWTH_SQL.format(blocks=BLOCKS, outside=_outside(BLOCKS))).df().iloc[0]
        return found[found.kind == "memory_growth"], row

    return judge


def test_a_planted_leak_to_the_byte(judged):
    found, row = judged([BASE + 1_000_000 * i for i in range(200)])
    assert row.bytes_per_step == row.at_least == row.at_most == 1_000_000
    assert "grows by 977 KiB a step" in found.iloc[0].sentence


def test_a_leak_under_noise_within_5_percent(judged):
    noise = np.random.default_rng(1).normal(0, 2_000_000, 400)
    found, row = judged([int(BASE + 500_000 * i + n) if i % 5 == 0 else None for i, n in enumerate(noise)])
    assert len(found) == 1
    assert row.bytes_per_step == pytest.approx(500_000, rel=0.05)
    assert row.at_least <= 500_000 <= row.at_most


def test_the_slope_is_theil_and_sens(judged):
    levels = [int(BASE + n) for n in np.random.default_rng(2).integers(0, 10**8, 250)]
    _, row = judged(levels)
    kept = [(i, n) for i, n in enumerate(levels) if i >= np.quantile(range(250), 0.2)]
    blocks = [kept[i * 20 : (i + 1) * 20] for i in range(10)]
    points = [(np.mean([i for i, _ in b]), median(n for _, n in b)) for b in blocks]
    slopes = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2))
    assert row.bytes_per_step == pytest.approx(slopes[22])
    assert (row.at_least, row.at_most) == (pytest.approx(slopes[10]), pytest.approx(slopes[34]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", ["noise", "warm-up", "one jump", "plateau after growth"])
def test_healthy_runs_have_no_leak(judged, shape, seed):
    random = np.random.default_rng(seed)
    level = {
        "noise": lambda i: 0,
        "warm-up": lambda i: 200_000_000 * (1 - 0.8**i),
        "one jump": lambda i: 100_000_000 * (i > 120),
        "plateau after growth": lambda i: 2_000_000 * min(i, 150),
    }[shape]
    found, _ = judged([int(BASE + level(i) + abs(random.normal(0, 500_000))) for i in range(200)])
    assert found.empty


def test_few_readings_say_nothing(judged):
    found, _ = judged([BASE + 10_000_000 * i if i % 10 == 0 else None for i in range(200)])
    assert found.empty
