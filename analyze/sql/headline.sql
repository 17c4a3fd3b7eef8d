-- The run in one row. Judged steps are those of the view `judged`: complete profiled ones, or all when none is.
-- Parameters: none.
-- Columns: ranks, world_size, steps_judged, steps_profiled (counts over ranks); mean_step_ns (DOUBLE), median_step_ns,
--   worst_step_ns (ns, of judged steps); device_busy (share of the device span, policy all, NULL without a device);
--   timed_steps (rows of the always-on timer, NULL without it); timed_mean_ns (DOUBLE), timed_wait (share of the
--   wall time spent in the loader's next(), NULL when no loader was instrumented); hosts (count, NULL when no rank
--   tells); device_name, backend (text, all that occur); start_ns (the earliest, NULL when no clock is known).
with always as (
    select end_ns - start_ns as dur_ns, wait_ns from timer
)
select
    (select count(distinct rank) from ranks) as ranks,
    (select max(world_size) from ranks) as world_size,
    (select count(*) from judged) as steps_judged,
    (select count(*) from steps where source <> 'timer') as steps_profiled,
    (select avg(dur_ns) from judged) as mean_step_ns,
    (select quantile_disc(dur_ns, 0.5) from judged) as median_step_ns,
    (select max(dur_ns) from judged) as worst_step_ns,
    (select sum(busy_ns) / nullif(sum(span_ns), 0) from device_time semi join counted using (rank, capture)
        where policy = 'all') as device_busy,
    (select nullif(count(*), 0) from always) as timed_steps,
    (select avg(dur_ns) from always) as timed_mean_ns,
    (select sum(wait_ns) / nullif(sum(dur_ns), 0) from always) as timed_wait,
    (select nullif(count(distinct host), 0) from ranks) as hosts,
    (select string_agg(distinct device_name, ', ' order by device_name) from ranks) as device_name,
    (select string_agg(distinct backend, ', ' order by backend) from ranks) as backend,
    (select min(start_ns) from ranks) as start_ns
