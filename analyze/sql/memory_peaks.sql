-- The most memory that was allocated and reserved, rank by rank and device by device, in the profiled windows.
-- Parameters: none.
-- Columns: rank; device; points (rows recorded); peak_allocated, peak_reserved (bytes, NULL when not recorded);
--   capture, at_ns (where the allocated peak was seen; ns since the epoch).
select
    rank, device, count(*) as points,
    max(allocated) as peak_allocated, max(reserved) as peak_reserved,
    arg_max(capture, coalesce(allocated, reserved)) as capture, arg_max(t_ns, coalesce(allocated, reserved)) as at_ns
from memory where allocated is not null or reserved is not null
group by rank, device order by peak_allocated desc nulls last, rank, device
