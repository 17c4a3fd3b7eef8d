-- Batches come from two layers too; where the loader was followed, what is known of each is beside it.
with told as (
    select rank, capture, batch, step, wait_start_ns, wait_ns, exposed_ns, workers, source,
        row_number() over (partition by rank, capture, step order by wait_start_ns) - 1 as nth
    from capture_batches
    union all
    select rank, null, row_number() over (partition by rank order by step) - 1, step, wait_start_ns, wait_ns, null, null,
        'timer', 0
    from timer t anti join capture_batches b using (rank, step) where wait_ns is not null
)
select t.* exclude (nth), l.worker, l.requested_ns, l.fetch_start_ns, l.fetch_end_ns, l.slowest, l.slowest_ns,
    l.collate_ns, l.got_ns
from told t left join lineage l using (rank, step, nth)
