-- How near host memory came to each of its limits, rank by rank: the fullest moment of all readings.
-- Parameters: none.
-- Columns: rank; what (shared memory: /dev/shm; container: its control group; machine); used, size (bytes); share;
--   step, t_ns (of that moment; ns since the epoch); rss, workers, workers_pss, swap (of the rank, as last read by then; bytes,
--   count)
with readings as (
    select * replace (
        last_value(rss ignore nulls) over earlier as rss, last_value(workers ignore nulls) over earlier as workers,
        last_value(workers_pss ignore nulls) over earlier as workers_pss, last_value(swap ignore nulls) over earlier as swap
    )
    from host_memory
    window earlier as (partition by rank, session order by t_ns rows unbounded preceding)
),
limits as (
    select *, 'shared memory' as what, shm_used as used, shm_size as size from readings
    union all select *, 'container', cgroup_used, cgroup_limit from readings
    union all select *, 'machine', total - available, total from readings
)
select rank, what, used, size, used / size as share, step, t_ns, rss, workers, workers_pss, swap
from limits where size > 0 and used is not null
qualify row_number() over (partition by rank, what order by used / size desc, t_ns) = 1
order by share desc, rank, what
