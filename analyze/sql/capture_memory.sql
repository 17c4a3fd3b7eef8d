-- Memory of a capture over time, from the allocator's [memory] instants.
-- Parameters: $capture_id.
-- Columns: capture_id, device ('cpu', 'cuda:0', ...), t_ns (ns since the epoch), step, allocated, reserved, event, size
--   (bytes, negative when freed), address (hexadecimal). Totals are NULL when this vintage does not record them;
--   the host's allocator reserves nothing, so that is NULL too. Besides event_id, and addr (the address as a number).
with read as (
    select
        start_ns, step, event_id,
        json_extract_string(args, [
            '$."Device Type"', '$."Device Id"', '$."Total Allocated"', '$."Total Reserved"', '$.Bytes', '$.Addr'
        ]) as told
    from events
    where kind = 'memory' and start_ns is not null
)
select
    $capture_id::bigint as capture_id,
    case when type_name is null then 'type' || told[1] else type_name end
        || case when told[1] <> '0' and told[2] <> '-1' then ':' || told[2] else '' end as device,
    start_ns as t_ns,
    step,
    try_cast(told[3] as bigint) as allocated,
    case when told[1] <> '0' then try_cast(told[4] as bigint) end as reserved,
    case when try_cast(told[5] as bigint) < 0 then 'free' else 'alloc' end as event,
    try_cast(told[5] as bigint) as size,
    '0x' || lower(to_hex(addr)) as address,
    event_id,
    addr
from (
    select *, try_cast(told[6] as ubigint) as addr, map {'0': 'cpu', '1': 'cuda', '6': 'hip', '12': 'xpu', '13': 'mps', '15': 'hpu', '19': 'mtia'}[told[1]] as type_name
    from read
)
order by t_ns, event_id
