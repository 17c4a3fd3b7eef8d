-- Which worker fetched which batch when, and when the loop waited: a stretch from the middle of the run.
-- Parameters: $limit_batches (how many batches).
-- Columns: rank; worker (NULL: the loop's own process); delivered; step; fetch_start_ns, fetch_end_ns, asked_ns, got_ns
--   (ns since the epoch).
with longest as (
    select rank, loader, pass, count(*) as batches from lineage where fetch_ns is not null
    group by rank, loader, pass order by batches desc, rank, loader, pass limit 1
)
select rank, worker, delivered, step, fetch_start_ns, fetch_end_ns, asked_ns, got_ns
from lineage join longest using (rank, loader, pass)
where fetch_ns is not null and delivered >= (batches - $limit_batches) // 2
order by delivered limit $limit_batches
