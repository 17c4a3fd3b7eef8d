"""Nesting against the definition: the innermost event whose whole time encloses an event's, asked pair by pair."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stepscope.ingest.nesting import nest

OPERATOR, ANNOTATION, LOADER, COMMUNICATES, RUNTIME = 1, 2, 4, 8, 16
ROLES = st.sampled_from([0, OPERATOR, ANNOTATION, LOADER, RUNTIME, OPERATOR | COMMUNICATES, ANNOTATION | COMMUNICATES])
# Well-nested trees: each event takes a share of its parent's time.
EVENTS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(1, 40), ROLES), max_size=14)


def ordered(events):
    rows = [(thread, at, start, start + length, role) for at, (thread, start, length, role) in enumerate(events)]
    rows = [row for row in rows if all(nested(row, other) for other in rows)]
    return sorted(rows, key=lambda row: (row[0], row[2], -row[3], row[1]))


def nested(one, other):
    """Whether two events are apart or one encloses the other, as on a real thread."""
    (thread, _, start, end, _), (other_thread, _, other_start, other_end, _) = one, other
    apart = thread != other_thread or end <= other_start or other_end <= start
    return apart or (start <= other_start and other_end <= end) or (other_start <= start and end <= other_end)


def enclosing(rows, row):
    """Return the events around one, outermost first; of equal times the earlier in the order is the outer one."""
    thread, _, start, end, _ = row
    place = rows.index(row)
    return [one for at, one in enumerate(rows) if at < place and one[0] == thread and one[2] <= start and end <= one[3]]


def as_batches(rows, size):
    names = ("thread", "event_id", "start_ns", "end_ns", "role")
    for begin in range(0, len(rows), size):
        columns = zip(*rows[begin : begin + size], strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(column, pa.int64()) for column in columns], names=list(names))


@given(EVENTS, st.integers(1, 15))
def test_parents_scopes_and_inner_time_by_definition(events, size):
    rows = ordered(events)
    found, inner = {}, {}
    for nesting, times in nest(as_batches(rows, size)):
        found |= {row["event_id"]: row for row in nesting.to_pylist()}
        for row in times.to_pylist():
            assert row["event_id"] not in inner
            inner[row["event_id"]] = row["inner_ns"]
    expected_inner = {}
    for row in rows:
        around = enclosing(rows, row)
        operators = [one for one in around if one[4] & OPERATOR]
        scopes = [one for one in around if one[4] & (OPERATOR | ANNOTATION)]
        assert found[row[1]] == {
            "event_id": row[1],
            "parent_id": around[-1][1] if around else None,
            "operator_id": operators[-1][1] if operators else None,
            "scope_id": scopes[-1][1] if scopes else None,
            "communicates": bool(scopes and scopes[-1][4] & COMMUNICATES),
            "in_loader": any(one[4] & LOADER for one in around),
        }
        charged = row[4] & OPERATOR or (row[4] & RUNTIME and around and not around[-1][4] & RUNTIME)
        if operators and charged:
            owner = operators[-1][1]
            expected_inner[owner] = expected_inner.get(owner, 0) + row[3] - row[2]
    assert inner == expected_inner


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 40), ROLES), max_size=30),
    st.integers(1, 31),
)
def test_parents_of_spans_that_may_overlap(events, size):
    """Asynchronous spans overlap as they like: what encloses one is the last before it that is not over before its end."""
    rows = [(thread, at, start, start + length, role) for at, (thread, start, length, role) in enumerate(events)]
    rows.sort(key=lambda row: (row[0], row[2], -row[3], row[1]))
    found = {
        row["event_id"]: row["parent_id"] for nesting, _ in nest(as_batches(rows, size)) for row in nesting.to_pylist()
    }
    for row in rows:
        around = [one for one in enclosing(rows, row) if one[3] > row[2]]
        assert found[row[1]] == (around[-1][1] if around else None)


def test_overlapping_spans_are_siblings():
    rows = [(1, 0, 0, 10, OPERATOR), (1, 1, 5, 15, OPERATOR), (1, 2, 6, 9, OPERATOR), (1, 3, 11, 14, RUNTIME)]
    found = [row for nesting, _ in nest(as_batches(rows, 4)) for row in nesting.to_pylist()]
    assert [row["parent_id"] for row in found] == [None, None, 1, 1]
