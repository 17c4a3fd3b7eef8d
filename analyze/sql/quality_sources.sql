-- Every trace file that was looked at, what was made of it and why.
-- Parameters: none.
-- Columns: source; rank; capture; rank_source; verdict; reason; format; bytes; events, events_repaired,
--   events_dropped (counts); sources (how many there are in all).
select
    source, rank, capture, rank_source, verdict, reason, format, bytes, events, events_repaired, events_dropped,
    count(*) over () as sources
from sources
order by case verdict when 'quarantined' then 0 when 'truncated' then 1 when 'repaired' then 2 else 3 end,
    rank, capture, source
limit 500
