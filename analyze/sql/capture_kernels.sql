-- Kernels of a capture by device, name and class. Untimed kernels count in nothing.
-- Parameters: $capture_id.
-- Columns: capture_id, device, name, class, calls, sum_ns, mean_ns, min_ns, max_ns
select
    $capture_id::bigint as capture_id, device, name, class,
    count(dur_ns) as calls,
    sum(dur_ns)::bigint as sum_ns,
    avg(dur_ns) as mean_ns,
    min(dur_ns) as min_ns,
    max(dur_ns) as max_ns
from events
where kind = 'kernel' and dur_ns is not null and not coalesce(list_contains(flags, 'foreign_clock'), false)
group by device, name, class
order by device, sum_ns desc, name, class
