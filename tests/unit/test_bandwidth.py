"""ORACLES G: eight ranks, fp32, 10 ms, worked out by hand."""

from __future__ import annotations

import pytest

from stepscope.analyze.bandwidth import bandwidth

TEN_MS = 10_000_000


@pytest.mark.parametrize(
    ("op", "elements", "algbw", "busbw"),
    [
        ("all_reduce", 268_435_456, 107.37, 187.90),
        ("all_gather", 268_435_456, 107.37, 93.95),
        ("reduce_scatter", 268_435_456, 107.37, 93.95),
        ("broadcast", 268_435_456, 107.37, 107.37),
    ],
)
def test_by_hand(op, elements, algbw, busbw):
    alg, bus = bandwidth(op, elements * 4, TEN_MS, 8)
    assert alg / 1e9 == pytest.approx(algbw, abs=0.005)
    assert bus / 1e9 == pytest.approx(busbw, abs=0.005)


def test_unknown_is_none_never_zero():
    assert bandwidth("all_reduce", None, TEN_MS, 8) == (None, None)
    assert bandwidth("all_reduce", 4096, 0, 8) == (None, None)
    assert bandwidth("all_reduce", 4096, TEN_MS, 1) == (None, None)
    assert bandwidth("all_reduce", 4096, TEN_MS, None)[1] is None
    assert bandwidth(None, 4096, TEN_MS, 8)[1] is None
