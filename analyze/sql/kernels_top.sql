-- Device work by name, over all ranks, the most time first.
-- Parameters: none.
-- Columns: name; class; ranks; calls (timed); sum_ns; mean_ns (DOUBLE), min_ns, max_ns (ns a call); share (0..1 of
--   all kernel time); names (how many names there are in all).
select
    name, class, count(distinct rank) as ranks, sum(calls)::bigint as calls, sum(sum_ns)::bigint as sum_ns,
    sum(sum_ns) / nullif(sum(calls), 0) as mean_ns, min(min_ns) as min_ns, max(max_ns) as max_ns,
    sum(sum_ns) / nullif(sum(sum(sum_ns)) over (), 0) as share,
    count(*) over () as names
from kernels semi join counted using (rank, capture)
group by name, class
order by sum_ns desc nulls last, name, class limit 200
