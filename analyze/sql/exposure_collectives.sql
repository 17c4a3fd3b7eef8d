-- The collectives, sends and receives of captures in which the wait of at least one is known.
-- Parameters: none
-- Columns: rank, capture, event_id, start_ns, end_ns (ns since the epoch), wait_ns (-1: unknown)
select c.rank, c.capture, c.event_id, c.start_ns, c.end_ns, coalesce(m.wait_ns, -1) as wait_ns
from capture_collectives c
semi join (select rank, capture from matched where wait_ns is not null) told using (rank, capture)
left join matched m using (rank, capture, event_id)
where c.end_ns is not null
order by c.rank, c.capture, c.start_ns, c.event_id
