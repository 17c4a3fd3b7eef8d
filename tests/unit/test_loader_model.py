"""The DataLoader model against schedules worked out by hand, and what must hold of any schedule."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyze.loader_model import Batch, Cost, Loader
from stepscope.analyze.loader_model import simulate as simulate_batches


def costs(*ns):
    return [Cost(one) for one in ns]


def simulate(fetches, works, loader, pickles=None):
    """The times at which the loop asks, for costs told apart."""
    pickles = pickles or [Cost(0)] * len(fetches)
    return simulate_batches([Batch(f, w, p) for f, w, p in zip(fetches, works, pickles, strict=True)], loader)


def test_without_workers_the_loop_fetches_and_works_in_turn():
    assert simulate(costs(10, 20), costs(3, 4), Loader(0)) == [0, 13, 37]


def test_one_worker_overlaps_the_work():
    # The worker ends batches at 10, 20, 30; the loop gets them then and works 4 on each.
    assert simulate(costs(10, 10, 10), costs(4, 4, 4), Loader(1)) == [0, 14, 24, 34]


def test_a_slow_step_hides_the_loader():
    # Batch 0 at 10; the others are ready when the loop asks.
    assert simulate(costs(10, 10, 10), costs(30, 30, 30), Loader(1)) == [0, 40, 70, 100]


def test_prefetch_bounds_what_is_fetched_ahead():
    # Depth 1: batch 1 is asked for when batch 0 is got (10), ready at 20, batch 2 sent at 40, ready at 50.
    assert simulate(costs(10, 10, 10), costs(30, 0, 0), Loader(1, prefetch=1)) == [0, 40, 40, 50]


def test_in_order_delivery_waits_for_the_slow_batch():
    # Worker 0: batch 0 (30), then 2; worker 1: batch 1 (10), then 3. In order, all wait for batch 0.
    fetches = costs(30, 10, 10, 10)
    assert simulate(fetches, costs(1, 1, 1, 1), Loader(2)) == [0, 31, 32, 41, 42]
    # Out of order the loop gets batch 1 at 10, 3 at 20, 0 at 30, 2 at 40.
    assert simulate(fetches, costs(1, 1, 1, 1), Loader(2, in_order=False)) == [0, 11, 21, 31, 41]


def test_messages_are_pickled_beside_the_next_fetch_and_unpickled_by_the_loop():
    # Batch 0 is fetched at 10 and pickled until 15, read from 16 on and unpickled until 18, worked on until 22. The
    # worker fetched batch 1 meanwhile, until 20, and pickled it until 25; the loop reads it from 26 and has it at 28.
    told = simulate(costs(10, 10), costs(4, 4), Loader(1, load=Cost(2), load_busy=Cost(2), wake=1), costs(5, 5))
    assert told == [0, 22, 32]


def test_a_worker_that_fetches_is_slow_to_answer():
    # Batch 0 comes at 10, while the worker fetches the next: 7 to unpickle, 17. Batch 1 came at 20, none is fetched: 2.
    assert simulate(costs(10, 10), costs(0, 0), Loader(1, load=Cost(2), load_busy=Cost(7))) == [0, 17, 22]


def test_workers_pause_before_a_fetch_and_the_loop_gives_after_it():
    assert simulate(costs(10, 10), costs(4, 4), Loader(1, pause=3, give=Cost(1))) == [0, 18, 31]


def test_out_of_order_messages_are_unpickled_before_the_one_that_is_waited_for():
    # Worker 1 has batch 1 at 10: the loop, waiting for batch 0, unpickles it until 15; batch 0 comes at 30, 35.
    # Batch 1 is there when it is asked for.
    assert simulate(costs(30, 10), costs(1, 1), Loader(2, load=Cost(5), load_busy=Cost(5))) == [0, 36, 37]


def test_two_workers_on_one_core_are_no_faster_than_one():
    burn = [Cost(10, 1.0)] * 6
    idle = costs(*[0] * 6)
    assert simulate(burn, idle, Loader(1, cores=1))[-1] == pytest.approx(60)
    assert simulate(burn, idle, Loader(2, cores=1))[-1] == pytest.approx(60)
    assert simulate(burn, idle, Loader(2, cores=2))[-1] == pytest.approx(30)
    # Sleeping needs no core.
    assert simulate(costs(*[10] * 6), idle, Loader(2, cores=1))[-1] == pytest.approx(30)


def test_training_and_loading_share_the_cores():
    # A worker and the loop, both burning, on one core: 2 x 10 of fetching and 2 x 10 of work take 40 in all.
    burn = [Cost(10, 1.0)] * 2
    assert simulate(burn, burn, Loader(1, cores=1))[-1] == pytest.approx(40)


passes = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(passes, st.integers(0, 5), st.integers(1, 4))
def test_every_batch_is_worked_on_and_no_schedule_beats_its_bounds(pairs, workers, prefetch):
    fetches, works = costs(*[f for f, _ in pairs]), costs(*[w for _, w in pairs])
    asked = simulate(fetches, works, Loader(workers, prefetch))
    assert len(asked) == len(pairs) + 1
    assert asked == sorted(asked)
    total_fetch, total_work = sum(f for f, _ in pairs), sum(w for _, w in pairs)
    assert max(total_work, total_fetch / max(workers, 1)) - 1e-6 <= asked[-1] <= total_fetch + total_work + 1e-6


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 100), st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 5), st.integers(1, 3))
def test_another_worker_never_slows_a_loader_of_even_batches_without_contention(fetch, works, workers, prefetch):
    fetches = costs(*[fetch] * len(works))
    fewer = simulate(fetches, costs(*works), Loader(workers, prefetch))[-1]
    assert simulate(fetches, costs(*works), Loader(workers + 1, prefetch))[-1] <= fewer + 1e-6
