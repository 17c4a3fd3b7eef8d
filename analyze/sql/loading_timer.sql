-- Waiting for batches over the whole run, seen by the always-on timer, rank by rank.
-- Parameters: none.
-- Columns: rank; steps; mean_step_ns (DOUBLE), mean_wait_ns (DOUBLE, ns a step), worst_wait_ns (ns); wait (share of the wall
--   time); worst_step (the step with the longest wait).
select
    rank, count(*) as steps,
    avg(end_ns - start_ns) as mean_step_ns, sum(wait_ns) / count(*) as mean_wait_ns, max(wait_ns) as worst_wait_ns,
    sum(wait_ns) / nullif(sum(end_ns - start_ns), 0) as wait,
    arg_max(step, wait_ns) as worst_step
from timer group by rank having count(wait_ns) > 0 order by rank
