-- The longest timed events that touch an interval of one rank's capture.
-- Parameters: rank_, capture_ (which); from_ns, to_ns (the interval, ns since the epoch); limit_events.
-- Columns: kind; class; name; device; stream; thread; at_ns (start, ns after from_ns); dur_ns; found (how many events
--   there are in all).
select
    kind, class, name, device, stream, thread, start_ns - $from_ns as at_ns, dur_ns, count(*) over () as found
from events
where rank = $rank_ and capture = $capture_ and start_ns < $to_ns and start_ns + dur_ns > $from_ns
    and kind in ('step', 'operator', 'python', 'annotation', 'dataloader', 'runtime', 'kernel', 'copy', 'memset',
        'sync', 'collective')
order by dur_ns desc, at_ns, event_id limit $limit_events
