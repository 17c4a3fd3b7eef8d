"""Replays against an allocator that is simulated forwards and knows everything."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.replay import Player, replay


@st.composite
def recordings(draw):
    """A random life of an allocator that reuses addresses, and a random window of it that was recorded."""
    alive: dict[int, int] = {}
    events, states = [], [{}]
    for _ in range(draw(st.integers(0, 60))):
        free = [a for a in range(1, 9) if a not in alive]
        if alive and (not free or draw(st.booleans())):
            address = draw(st.sampled_from(sorted(alive)))
            events.append((-1, address, alive.pop(address)))
        elif draw(st.integers(0, 9)) == 0:
            events.append((0, 99, 0))  # neither: an error, a segment
        else:
            address = draw(st.sampled_from(free))
            alive[address] = draw(st.integers(1, 1000))
            events.append((1, address, alive[address]))
        states.append(dict(alive))
    first = draw(st.integers(0, len(events)))
    last = draw(st.integers(first, len(events)))
    return events[first:last], states[first : last + 1]


def columns(events):
    return list(zip(*events, strict=True)) or [(), (), ()]


def play(events, at_end):
    """Play events with their numbers as tags; ``at_end`` is bytes by address, tagged 1000 and the address."""
    player = Player()
    for i, (kind, address, size) in enumerate(events):
        if kind:
            player.alloc(i, address, size, i) if kind > 0 else player.free(i, address, size)
    return player.lives(len(events), at_end and {a: (n, 1000 + a) for a, n in at_end.items()})


@given(recordings())
def test_every_moment_is_the_allocators(recording):
    events, states = recording
    played = play(events, states[-1])
    assert played.unmatched == 0
    assert played.before == sum(states[0].values())
    assert played.live().tolist() == [sum(state.values()) for state in states]
    assert played.live().min() >= 0
    for moment, state in enumerate(states):
        assert sorted(played.size[played.alive(moment)].tolist()) == sorted(state.values())


@given(recordings(), st.lists(st.booleans(), min_size=200, max_size=200))
def test_parts_sum_to_the_whole_at_every_moment(recording, coin):
    events, states = recording
    played = play(events, states[-1])
    chosen = np.array(coin[: len(played.size)], bool)
    moments = np.arange(len(states))
    assert (played.live_at(moments, chosen) + played.live_at(moments, ~chosen) == played.live()).all()
    assert (played.live_at(moments[::3], chosen) == played.live_at(moments, chosen)[::3]).all()


@given(recordings())
def test_without_an_end_what_never_moved_is_missing_and_nothing_else(recording):
    events, states = recording
    played = replay(*columns(events))
    touched = {address for kind, address, _ in events if kind}
    still = sum(size for address, size in states[0].items() if address not in touched)
    assert (played.live() + still).tolist() == [sum(state.values()) for state in states]


def test_contradictions_are_counted_and_left_out():
    """Address 1 is allocated twice, 2 freed twice; by hand: 10 live from event 1 on, 5 until event 3."""
    played = play([(1, 1, 7), (1, 1, 10), (-1, 2, 6), (-1, 2, 5)], {1: 10})
    assert played.unmatched == 2
    assert played.live().tolist() == [5, 5, 15, 15, 10]


EVENTS = st.lists(st.tuples(st.sampled_from([-1, 0, 1]), st.integers(1, 4), st.integers(1, 100)), max_size=40)


@given(EVENTS, st.none() | st.dictionaries(st.integers(1, 5), st.integers(1, 100)))
def test_whatever_is_recorded_is_played_as_defined(events, at_end):
    """Going back: an allocation ends the block that is there, a free begins one where none is; the rest contradicts."""
    alive = {}
    if at_end is None:
        for kind, address, size in events:
            if kind > 0:
                alive[address] = (len(events), size)
            elif kind < 0:
                alive.pop(address, None)
    else:
        alive = {address: (len(events), size) for address, size in at_end.items()}
    lives, unmatched = [], 0
    for i, (kind, address, size) in reversed(list(enumerate(events))):
        if kind > 0 and address in alive:
            lives.append((i, alive.pop(address)[0], size, i))
        elif kind < 0 and address not in alive:
            alive[address] = (i, size)
        else:
            unmatched += kind != 0
    there = {address: 1000 + address for address, (death, _) in alive.items() if death == len(events)}
    lives += [(-1, death, size, there.get(address, -1)) for address, (death, size) in alive.items()]
    played = play(events, at_end)
    found = zip(*(getattr(played, name).tolist() for name in ("born", "died", "size", "tag")), strict=True)
    assert (sorted(found), played.unmatched) == (sorted(lives), unmatched)
