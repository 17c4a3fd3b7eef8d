-- The intervals of a capture in the ledger's lanes, ordered by start. Where an operator frees device memory, the allocator
-- waits for the device first: what synchronises right inside such an operator is the allocator's.
-- Parameters: none; patterns come as variables (runtime_sync, runtime_allocator).
-- Columns: start_ns, end_ns (ns since the epoch), lanes (bit k is the k-th category of ingest.schema.LEDGER_CATEGORIES)
with frees as (
    select event_id from events where kind = 'operator' and event_id in (
        select parent_id from events
        where kind = 'runtime' and regexp_matches(name, getvariable('runtime_allocator')) and regexp_matches(name, 'Free|Unmap')
    )
),
marked as (
    select
        start_ns,
        start_ns + dur_ns as end_ns,
        case class when 'compute' then 1 when 'communication' then 2 when 'copy' then 4 when 'unclassified' then 8 else 0 end
        + case
            when kind = 'dataloader' then 16
            when kind = 'runtime' then 128
                + case when regexp_matches(name, getvariable('runtime_sync')) 
                    then if(parent_id in (select event_id from frees), 64, 32) else 0 end
                + case when regexp_matches(name, getvariable('runtime_allocator')) then 64 else 0 end
            when kind = 'operator' and class is null then 128
            else 0
        end as lanes
    from events
    where dur_ns > 0 and not coalesce(list_contains(flags, 'foreign_clock'), false)
      and kind in ('kernel', 'copy', 'memset', 'collective', 'operator', 'runtime', 'dataloader')
)
from marked where lanes > 0 order by start_ns
