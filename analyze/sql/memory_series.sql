-- Memory of one rank and device over one capture, in at most 400 buckets of time.
-- Parameters: rank_, device_, capture_ (which).
-- Columns: at_ns (first stamp of the bucket, ns after the first of all); allocated, reserved (most in the bucket,
--   bytes).
with chosen as (
    select t_ns, allocated, reserved from memory
    where rank = $rank_ and device = $device_ and capture = $capture_
        and (allocated is not null or reserved is not null)
), bounds as (
    select min(t_ns) as low, max(t_ns) - min(t_ns) + 1 as n from chosen
)
select min(t_ns) - any_value(low) as at_ns, max(allocated) as allocated, max(reserved) as reserved
from chosen, bounds group by (t_ns - low)::hugeint * 400 // n order by 1
