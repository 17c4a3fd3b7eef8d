-- Host operators by name, over all ranks, the most device time first, then the most own host time.
-- Parameters: none.
-- Columns: name; ranks; calls; device_ns (work launched by the innermost operator); host_self_ns (own time, without
--   the operators inside); host_ns (with them); names (how many names there are in all).
select
    name, count(distinct rank) as ranks, sum(calls)::bigint as calls,
    sum(device_ns)::bigint as device_ns, sum(host_self_ns)::bigint as host_self_ns, sum(host_ns)::bigint as host_ns,
    count(*) over () as names
from operators semi join counted using (rank, capture)
group by name
order by device_ns desc nulls last, host_self_ns desc nulls last, name limit 200
