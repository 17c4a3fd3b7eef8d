-- All waiting in judged steps, charged to the rank that arrived last and to its cause; to no rank where the clocks leave
-- a doubt. A moment in which several collectives wait counts once, for the one that began first: the sum is the time in
-- which ranks wait.
with charged as (
    select c.match, case when late_certain then late_rank end as late_rank, rank, c.step, e.alone_wait_ns, e.comm_wait_ns
    from collectives c join exposed_waits e using (rank, capture, event_id) semi join judged using (rank, capture, step)
    where e.alone_wait_ns > 0
)
select late_rank, cause, rank, step, sum(alone_wait_ns)::bigint as wait_ns, sum(comm_wait_ns)::bigint as exposed_ns
from charged left join causes using (match, late_rank) group by all
