-- On which thread each of the allocator's events happened, in the order of capture_memory.
-- Parameters: none.
-- Columns: thread
select thread from events where kind = 'memory' and start_ns is not null order by start_ns, event_id
