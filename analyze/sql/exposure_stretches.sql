-- When communication ran and nothing computed.
-- Parameters: none
-- Columns: rank, capture, start_ns, end_ns (ns since the epoch)
select rank, capture, start_ns, end_ns from exposed_comm order by rank, capture, start_ns
