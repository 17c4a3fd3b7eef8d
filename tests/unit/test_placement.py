"""Placements by hand: P = G = 1000 bytes, O = 2000, A = 600, the largest unit 100, 4 ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.placement import STRATEGIES, Placement, States, cheapest, held, place

STATES = States(parameters=1000, gradients=1000, optimizer=2000, activations=600, unit=100)
BY_HAND = {  # parameters, gradients, optimizer, activations, moved, host
    "data parallel": (1000, 1000, 2000, 600, 1500, 0),  # 2 · 3/4 · 1000
    "ZeRO-1": (1000, 1000, 500, 600, 1500, 0),
    "ZeRO-2": (1000, 250, 500, 600, 1500, 0),
    "ZeRO-3 / FSDP": (350, 350, 500, 600, 2250, 0),  # 3 · 3/4 · 1000
    "tensor parallel": (250, 250, 500, 150, None, 0),
    "rotated shards": (275, 275, 500, 600, 2250, 0),  # a quarter of the unit at a time
    "offload": (100, 100, 0, 600, 1500, 3000),
}


def test_by_hand():
    placed = place(STATES, 4, limit=1700)
    told = {p.strategy: (p.parameters, p.gradients, p.optimizer, p.activations, p.moved, p.host) for p in placed}
    assert told == BY_HAND
    assert {p.strategy: p.total for p in placed} == {name: sum(row[:4]) for name, row in BY_HAND.items()}
    assert [p.strategy for p in placed if p.fits] == ["tensor parallel", "rotated shards", "offload"]


@pytest.mark.parametrize(("placement", "bytes_"), list(zip(Placement, (1000, 250, 350, 100, 0), strict=True)), ids=str)
def test_the_five_placements(placement, bytes_):
    assert held(1000, placement, 4, 100) == bytes_


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [(10_000, "data parallel"), (3_100, "ZeRO-1"), (2_400, "ZeRO-2"), (1_800, "ZeRO-3 / FSDP"), (10, None)],
)
def test_the_cheapest_that_fits(limit, wanted):
    """Of those that move equally little the one that holds the most: it has the least work."""
    one = cheapest(place(STATES, 4, limit))
    assert (one and one.strategy) == wanted


def test_uneven_shards_are_padded_and_the_unknown_stays_unknown():
    placed = place(States(10, 10, 20, None, 3), 3)
    assert placed[1].optimizer == 7
    assert {p.activations for p in placed} == {None}
    assert {p.fits for p in placed} == {None}
    with pytest.raises(ValueError, match="0 ranks"):
        place(STATES, 0)


@given(*[st.integers(0, 10**12)] * 4, st.integers(0, 10**6), st.integers(1, 4096))
def test_more_sharding_never_holds_more(p, g, o, a, unit, ranks):
    totals = [one.total for one in place(States(p, g, o, a, unit), ranks)]
    assert totals[0] >= totals[1] >= totals[2]
    assert totals[3] + 2 * -(-unit // ranks) >= totals[5] - 2 * unit or ranks == 1


def test_one_rank_moves_nothing_and_gathers_nothing():
    for one in place(STATES, 1):
        assert one.moved == 0
        if one.strategy != "offload":
            assert one.total == 4600
    assert len(STRATEGIES) == len(BY_HAND)
