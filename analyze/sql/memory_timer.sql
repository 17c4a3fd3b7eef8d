-- Memory over the whole run, seen by the always-on timer: the most of any rank, in at most 300 buckets of steps.
-- Parameters: none.
-- Columns: step (first of the bucket); allocated, reserved (accelerator bytes, NULL without one); rss (resident bytes
--   of the process).
with bounds as (select min(step) as low, max(step) - min(step) + 1 as n from timer)
select min(step) as step, max(allocated) as allocated, max(reserved) as reserved, max(rss) as rss
from timer, bounds
where allocated is not null or reserved is not null or rss is not null
group by (step - low) * least(n, 300) // n order by 1
