-- Waiting for batches in the profiled windows, rank by rank.
-- Parameters: none.
-- Columns: rank; batches; mean_wait_ns (DOUBLE), median_wait_ns, worst_wait_ns (time in the loader's next(), ns);
--   exposed_ns (sum of the part with the device idle, NULL when unknown); exposed (share of all waiting);
--   workers (whether the loader has worker processes, NULL when the span does not tell).
select
    rank, count(*) as batches,
    avg(wait_ns) as mean_wait_ns, quantile_disc(wait_ns, 0.5) as median_wait_ns, max(wait_ns) as worst_wait_ns,
    sum(exposed_ns)::bigint as exposed_ns,
    sum(exposed_ns) / nullif(sum(wait_ns) filter (where exposed_ns is not null), 0) as exposed,
    bool_or(workers) as workers
from batches semi join counted using (rank, capture) where source = 'profiler' group by rank order by rank
