-- Collectives by operation, type and group size, over all ranks.
-- Parameters: none.
-- Columns: op; dtype; group_size; calls (over ranks); bytes (sum, NULL when a size is not recorded); sum_ns, mean_ns
--   (DOUBLE), worst_ns (ns); exposed_ns (sum, hidden by nothing; NULL when unknown); algbw, busbw (median over the
--   calls, bytes/s, NULL without sizes).
select
    op, dtype, group_size, count(*) as calls,
    case when count(bytes) = count(*) then sum(bytes)::bigint end as bytes,
    sum(end_ns - start_ns)::bigint as sum_ns, avg(end_ns - start_ns) as mean_ns, max(end_ns - start_ns) as worst_ns,
    sum(exposed_ns)::bigint as exposed_ns,
    median(algbw) as algbw, median(busbw) as busbw
from collectives semi join counted using (rank, capture)
group by op, dtype, group_size
order by sum_ns desc nulls last, op, dtype, group_size limit 200
