-- Host memory over the whole run, the most of any rank, in at most 300 buckets of steps.
-- Parameters: none.
-- Columns: step (first of the bucket); process, workers (bytes by PSS), shared (of /dev/shm), container (without file
--   cache); bytes, NULL where nothing was read.
with bounds as (select min(step) as low, max(step) - min(step) + 1 as n from host_memory)
select min(step) as step, max(pss) as process, max(workers_pss) as workers, max(shm_used) as shared, max(cgroup_used) as container
from host_memory, bounds group by (step - low) * least(n, 300) // n order by 1
