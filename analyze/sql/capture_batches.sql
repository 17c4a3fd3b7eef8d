-- The loader's next() calls of a capture, in time order; a call inside another is part of it.
-- Parameters: none.
-- Columns: batch (ordinal), step, wait_start_ns (ns since the epoch), wait_ns, workers (true, false, NULL when not told)
select
    row_number() over (order by l.start_ns, l.event_id) - 1 as batch,
    l.step,
    l.start_ns as wait_start_ns,
    l.dur_ns as wait_ns,
    case
        when contains(l.name, '_MultiProcessing') then true
        when contains(l.name, '_SingleProcess') then false
    end as workers
from events l left join events outer_span on l.parent_id = outer_span.event_id and outer_span.kind = 'dataloader'
where l.kind = 'dataloader' and l.dur_ns is not null and outer_span.event_id is null
order by batch
