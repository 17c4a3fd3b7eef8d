-- What the last to arrive at each collective had most more of than the other members, on the way there since the previous one,
-- where that makes up half of their wait or more: who came late out of the previous one is late for that reason.
with ways as (
    select c.match, c.late_rank, a.category, a.rank = c.late_rank as late, a.ns, c.wait_ns
    from collectives c join approaches a using (rank, capture, event_id)
    where c.late_certain and a.category <> 'exposed_comm'
),
excess as (
    select match, late_rank, category, sum(ns) filter (late) - avg(ns) filter (not late) as ns,
        avg(wait_ns) filter (not late) as wait_ns
    from ways group by all
)
select match, late_rank, arg_max(category, ns) as cause, max(ns)::bigint as more_ns
from excess where ns > 0 and 2 * ns >= wait_ns group by match, late_rank;

-- All waiting in judged steps, charged to the rank that arrived last and to its cause
