-- The batches that the loop waited for longest.
-- Parameters: none.
-- Columns: rank; step; batch (ordinal within the capture); wait_ns; exposed_ns (ns with the device idle).
select rank, step, batch, wait_ns, exposed_ns
from batches semi join counted using (rank, capture) where source = 'profiler' and wait_ns is not null
order by wait_ns desc, rank, step, batch limit 20
