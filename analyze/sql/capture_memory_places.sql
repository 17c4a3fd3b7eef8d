-- The names of some events of a capture.
-- Parameters: none; the table spans_wanted has the events asked for.
-- Columns: event_id; name ('' for what is no event)
select event_id, coalesce(name, '') as name from spans_wanted left join events using (event_id) order by event_id
