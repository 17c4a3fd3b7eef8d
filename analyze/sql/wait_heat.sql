-- How long each rank waits for others in each judged step.
-- Parameters: $limit_steps, the first steps that are returned
-- Columns: rank, step, wait_ns (ns)
with steps as (select distinct step from judged order by step limit $limit_steps)
select rank, step, sum(wait_ns)::bigint as wait_ns
from collectives semi join judged using (rank, capture, step) semi join steps using (step)
where wait_ns is not null group by all order by rank, step
