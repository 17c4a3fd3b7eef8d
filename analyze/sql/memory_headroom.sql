-- How near each rank came to its device's limit, and the largest batch that would fit if activations and inputs grow
-- with it and nothing else does.
-- Parameters: none.
-- Columns: rank; limit_bytes (of the device); reserved (at the peak, bytes); share (of the limit); outside (held on the
--   device by others than this run's ranks, bytes, NULL when not told); peak (alive at once in the windows, bytes);
--   scaling (of it activations and inputs, bytes, NULL when not recorded); batch (of the loaders, NULL when they differ or
--   were not seen); fits (the largest batch, NULL when batch, scaling or outside is unknown)
with reserved as (
    select rank, max(reserved) as reserved from (
        select rank, reserved from memory where device <> 'cpu'
        union all select rank, reserved from timer
        union all select rank, peak_reserved from device_memory
        union all select rank, peak_reserved from memory_peaks where device <> 'cpu'
    ) where reserved is not null group by rank
),
moments as (
    select rank, host, device, arg_min(d.free, d.t_ns) as free, arg_min(total, d.t_ns) as total,
        arg_min(d.reserved, d.t_ns) as reserved, count(*) over (partition by host, device) as sharers
    from device_memory d join ranks using (rank) where d.free is not null group by rank, host, device
),
elsewhere as (
    select rank, max(total - free - reserved) as outside from moments where sharers = 1 group by rank
),
top as (
    select rank, source, device, peak from memory_peaks where device <> 'cpu'
    qualify row_number() over (partition by rank order by peak desc, source, device) = 1
),
parts as (
    select rank, any_value(peak) as peak,
        sum(bytes) filter (category in ('activation', 'input'))::bigint as scaling
    from top join memory_alive using (rank, source, device) group by rank
),
batches as (
    select rank, any_value(batch) as batch
    from (select rank, unnest(json_extract(loaders, '$[*].batch_size'))::bigint as batch from ranks)
    where batch is not null group by rank having count(distinct batch) = 1
)
select
    rank, device_memory as limit_bytes, reserved, reserved / device_memory as share, outside, peak, scaling, batch,
    case when scaling > 0 then
        (batch * (device_memory - outside - greatest(reserved - scaling, 0)) // scaling)::bigint end as fits
from reserved join ranks using (rank) left join elsewhere using (rank) left join parts using (rank) left join batches using (rank)
where device_memory > 0
order by share desc, rank
