-- The collective of the judged steps with the most waiting: when each rank arrives, on the clock of the lowest rank.
-- Parameters: none
-- Columns: rank, op, step, after_ns (arrival after the first rank's, ns), wait_ns, wait_least_ns, wait_most_ns (bounds),
--   transfer_ns (ns), clock_error_ns (by which the arrival may be off, ns), late_rank
with worst as (
    select match from collectives semi join judged using (rank, capture, step)
    where wait_ns is not null group by match order by sum(wait_ns) desc, match limit 1
)
select
    rank, op, step, c.start_ns + clock_offset_ns - min(c.start_ns + clock_offset_ns) over () as after_ns, wait_ns,
    wait_least_ns, wait_most_ns, transfer_ns, clock_error_ns, late_rank
from collectives c join ranks using (rank) semi join worst using (match) order by after_ns, rank
