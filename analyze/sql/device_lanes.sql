-- The device work of one device in lanes: compute, communication, copy, unclassified, then the same for linked work only.
-- Parameters: $device.
-- Columns: start_ns, end_ns (ns since the epoch), lanes (bits 0-3 all work, bits 4-7 work whose launch is in the trace)
with lanes as (
    select
        start_ns,
        start_ns + dur_ns as end_ns,
        case class when 'compute' then 1 when 'communication' then 2 when 'copy' then 4 else 8 end as lane,
        parent_id is not null as linked
    from events
    where kind in ('kernel', 'copy', 'memset') and device is not distinct from $device and dur_ns > 0
      and not coalesce(list_contains(flags, 'foreign_clock'), false)
)
select start_ns, end_ns, lane + case when linked then lane * 16 else 0 end as lanes from lanes order by start_ns
