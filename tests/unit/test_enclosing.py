"""What is around a moment, against asking every span; batches of any size tell the same."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.enclosing import NONE, around

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12), st.integers(NONE, 5)), max_size=50)


def stream(rows, batch):
    """Spans (thread, start, length, role) in the order of the query, as batches; a moment has no length."""
    made = [(t, a, a + (n + 1 if role != NONE else 0), i, role) for i, (t, a, n, role) in enumerate(rows)]
    made.sort(key=lambda row: (row[0], row[1], -row[2], row[3]))
    names = ("thread", "start_ns", "end_ns", "event_id", "role")
    table = pa.table({name: [row[i] for row in made] for i, name in enumerate(names)})
    return made, table.cast(pa.schema([(name, pa.int64()) for name in names])).to_batches(batch)


@given(ROWS, st.integers(1, 60))
def test_spans_that_may_overlap(rows, batch):
    """The innermost span is the one begun last of those that are not over; a phase is told the same way."""
    made, batches = stream(rows, batch)
    wanted = []
    for thread, moment, _, event, role in made:
        if role != NONE:
            continue
        open_ = [one for one in made if one[0] == thread and one[4] != NONE and one[1] <= moment < one[2]]
        over, modules = ([one for one in open_ if (one[4] == 5) is module] for module in (False, True))
        strong = [one[4] for one in over if one[4] > 1]
        phase = strong[-1] if strong else 1 if any(one[4] == 1 for one in over) else 0
        wanted.append((event, over[-1][3] if over else NONE, modules[-1][3] if modules else NONE, phase))
    found = around(batches)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == sorted(wanted)


def test_by_hand():
    """A loader's copy is input, an operator in the optimizer is the optimizer's, one after it is forward."""
    rows = [(0, 0, 9, 2), (0, 2, 3, 1), (0, 3, 0, NONE), (0, 20, 9, 3), (0, 21, 3, 1), (0, 22, 0, NONE), (0, 40, 5, 1)]
    rows += [(0, 41, 0, NONE), (0, 50, 0, NONE)]
    found = around(stream(rows, 4)[1])
    assert found.event_id.tolist() == [2, 5, 7, 8]
    assert found.span.tolist() == [1, 4, 6, NONE]
    assert found.phase.tolist() == [2, 3, 1, 0]
