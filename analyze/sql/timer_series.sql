-- The always-on timer over the whole run, in at most 300 buckets of consecutive steps.
-- Parameters: none.
-- Columns: step (first of the bucket); steps (rows: ranks times steps); fastest_ns, median_ns, slowest_ns (step wall
--   time); wait_ns (median time in the loader's next(), NULL when not instrumented); worst_wait_ns; profiled (whether
--   a profiler window was open in the bucket).
with bounds as (
    select min(step) as low, max(step) - min(step) + 1 as n from timer
), placed as (
    select step, end_ns - start_ns as dur_ns, wait_ns, profiled, (step - low) * least(n, 300) // n as bucket
    from timer, bounds
)
select
    min(step) as step, count(*) as steps,
    min(dur_ns) as fastest_ns, quantile_disc(dur_ns, 0.5) as median_ns, max(dur_ns) as slowest_ns,
    quantile_disc(wait_ns, 0.5) as wait_ns, max(wait_ns) as worst_wait_ns,
    coalesce(bool_or(profiled), false) as profiled
from placed group by bucket order by bucket
