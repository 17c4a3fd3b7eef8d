-- How fast each group's collectives are once all members have arrived: time = latency + bytes / bandwidth, over the sizes.
-- Parameters: none
-- Columns: pg, op, role (of the group, NULL when not shown), group_size, calls, sizes (distinct), smallest, largest (bytes),
--   latency_ns, bandwidth (of the buffer, bytes/s), link_bandwidth (that each member sends at least, bytes/s), residual (the
--   largest, 0..1); NULL when fewer than three sizes or no growth with size tell it
select f.pg, f.op, (select any_value(g.role) from groups g where g.pg = f.pg) as role, f.group_size, f.calls, f.sizes,
    f.smallest, f.largest, f.latency_ns, f.bandwidth, f.link_bandwidth, f.residual
from fits f order by f.pg, f.op, f.group_size, f.smallest, f.calls
