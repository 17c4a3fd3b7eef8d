-- What each device did over its span. Policy 'all' counts every device event, 'linked' only those whose launch is in
-- the trace; 'linked' is listed where it differs.
-- Parameters: none.
-- Columns: rank; capture; device; policy; busy (share of span); span_ns, busy_ns, idle_ns, compute_ns, comm_ns,
--   exposed_comm_ns, copy_ns, exposed_copy_ns, unclassified_ns (ns).
select
    d.rank, d.capture, d.device, d.policy,
    d.busy_ns / nullif(d.span_ns, 0) as busy,
    d.span_ns, d.busy_ns, d.idle_ns, d.compute_ns, d.comm_ns, d.exposed_comm_ns, d.copy_ns, d.exposed_copy_ns,
    d.unclassified_ns
from device_time d
left join device_time a on a.rank = d.rank and a.capture = d.capture and a.device is not distinct from d.device and a.policy = 'all'
where d.policy = 'all' or (d.span_ns, d.busy_ns, d.compute_ns, d.comm_ns, d.copy_ns)
    is distinct from (a.span_ns, a.busy_ns, a.compute_ns, a.comm_ns, a.copy_ns)
order by d.rank, d.capture, d.device, d.policy
