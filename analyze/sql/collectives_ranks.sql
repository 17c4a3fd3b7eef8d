-- Communication rank by rank. The rank that the others wait for has the shortest collectives, not the longest.
-- Parameters: none.
-- Columns: rank; calls; bytes (sum, NULL when no size is recorded); sum_ns; exposed_ns (NULL when unknown).
select
    rank, count(*) as calls, sum(bytes)::bigint as bytes,
    sum(end_ns - start_ns)::bigint as sum_ns, sum(exposed_ns)::bigint as exposed_ns
from collectives semi join counted using (rank, capture)
group by rank order by rank
