-- Gradient buckets in the order in which they are reduced in a step: when each begins and ends, and what of it nothing hides.
-- Parameters: none
-- Columns: place (in the step), op, bytes (NULL when they differ or are unknown), calls (over ranks and judged steps), begins_ns
--   (after the step's start, mean, DOUBLE), ends_ns (mean, DOUBLE), exposed_ns (mean, DOUBLE), wait_ns (mean, DOUBLE, NULL
--   when unknown)
with placed as (
    select c.*, s.start_ns as step_ns,
        row_number() over (partition by c.rank, c.capture, c.step order by c.start_ns, c.event_id) as place
    from collectives c semi join judged using (rank, capture, step)
    join steps s using (rank, capture, step)
    where op in ('all_reduce', 'reduce_scatter')
)
select place, any_value(op) as op, case when min(bytes) = max(bytes) then min(bytes) end as bytes, count(*) as calls,
    avg(start_ns - step_ns) as begins_ns, avg(end_ns - step_ns) as ends_ns, avg(exposed_ns) as exposed_ns, avg(wait_ns) as wait_ns
from placed group by place order by place limit 100
