-- Bandwidth against size, for a picture: each group's collectives of one size, and what the fit says for that size.
-- Parameters: none
-- Columns: pg, op, bytes, calls, ns (median once all have arrived), bandwidth (of the buffer, bytes/s), fitted (bytes/s, NULL
--   without a fit)
select t.pg, t.op, t.bytes, t.calls, t.ns, t.bytes * 1e9 / t.ns as bandwidth,
    t.bytes * 1e9 / nullif(greatest(f.latency_ns + t.bytes * 1e9 / f.bandwidth, 0), 0) as fitted
from link_times t
left join fits f on f.pg is not distinct from t.pg and f.op = t.op and t.bytes between f.smallest and f.largest
    and f.group_size = coalesce(t.group_size, len(t.members))
order by t.pg, t.op, t.bytes, t.calls limit 400
