-- Operators of a capture by name: host time, host time outside inner operators and runtime calls (as
-- torch.profiler's self time), and the device time they launched.
-- Device work belongs to the innermost operator around its launch.
-- Parameters: $capture_id.
-- Columns: capture_id, name, calls, host_ns, host_self_ns, device_ns (NULL when the capture has no device work)
with operators as (
    select event_id, name, dur_ns from events where kind = 'operator' and dur_ns is not null
),
launched as (
    select operator_id as event_id, sum(coalesce(c.dur_ns, p.dur_ns)) as ns
    from physics p left join clips c using (event_id)
    where operator_id is not null and not untimed and not foreign_clock
    group by operator_id
)
select
    $capture_id::bigint as capture_id,
    o.name,
    count(*) as calls,
    sum(o.dur_ns)::bigint as host_ns,
    sum(o.dur_ns - coalesce(i.inner_ns, 0))::bigint as host_self_ns,
    case when exists (select 1 from physics) then sum(coalesce(l.ns, 0))::bigint end as device_ns
from operators o left join inner_time i using (event_id) left join launched l using (event_id)
group by o.name
order by host_self_ns desc, o.name
