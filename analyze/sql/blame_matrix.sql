-- The blame matrix: which rank waits for which, in rank time over all judged steps.
-- Parameters: none
-- Columns: late_rank (who is waited for), rank (who waits), wait_ns (ns)
select late_rank, rank, sum(wait_ns)::bigint as wait_ns
from blame where late_rank is not null group by all order by late_rank, rank
