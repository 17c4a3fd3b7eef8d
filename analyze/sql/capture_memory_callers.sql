-- The host spans of a capture that can enclose an allocation, in the order in which they nest.
-- Parameters: none.
-- Columns: thread, start_ns, end_ns (ns since the epoch), name, kind
select thread, start_ns, start_ns + dur_ns as end_ns, name, kind
from events
where kind in ('operator', 'annotation', 'dataloader', 'step') and thread is not null and dur_ns is not null
order by thread, start_ns, end_ns desc, event_id
