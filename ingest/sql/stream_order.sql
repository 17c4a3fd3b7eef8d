-- Kernels in the order in which each stream ran them.
-- Parameters: none.
-- Columns: lane (a code for device and stream), event_id, start_ns (the file's own clock), dur_ns
with lanes as (
    select device, stream, row_number() over (order by device, stream) as lane
    from (select distinct device, stream from physics where kind = 'kernel')
)
select lane, event_id, start_ns, dur_ns
from physics p join lanes l on p.device is not distinct from l.device and p.stream is not distinct from l.stream
where p.kind = 'kernel' and not untimed and not foreign_clock
order by lane, start_ns, dur_ns, event_id
