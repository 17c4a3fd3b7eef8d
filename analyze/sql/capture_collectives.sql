-- The collectives of a capture: communication kernels on a device, or host spans of a CPU backend.
-- Parameters: none; names come as variables (collective_ops, dtype_bytes).
-- Columns: event_id, step, pg, seq, op, bytes (of the whole buffer), dtype, group_size, start_ns (ns since the epoch), end_ns
with found as (
    select
        event_id, step, name, kind, start_ns, start_ns + dur_ns as end_ns,
        json_extract_string(args, [
            '$."Collective name"', '$.dtype', '$."In msg nelems"', '$."Out msg nelems"', '$."Group size"',
            '$."Process Group Name"', '$.Seq'
        ]) as meta,
        json_extract_string(args, '$."Input type"[0]') as input_type,
        json_extract(args, '$."Input Dims"')::bigint[][] as input_dims
    from events
    where dur_ns is not null and class = 'communication' and kind in ('kernel', 'collective')
      and not coalesce(list_contains(flags, 'foreign_clock'), false)
),
named as (
    select
        *,
        coalesce(meta[1], name) as told_name,
        coalesce(meta[2], input_type) as dtype,
        case kind
            when 'kernel' then greatest(try_cast(meta[3] as bigint), try_cast(meta[4] as bigint))
            else list_sum(list_transform(input_dims, lambda dims: list_product(dims)))
        end as elements
    from found
)
select
    event_id,
    step,
    meta[6] as pg,
    try_cast(meta[7] as bigint) as seq,
    list_filter(getvariable('collective_ops'), lambda one: regexp_matches(told_name, '(?i)' || one.pattern))[1].op as op,
    (elements * getvariable('dtype_bytes')[lower(dtype)])::bigint as bytes,
    dtype,
    try_cast(meta[5] as bigint) as group_size,
    start_ns,
    end_ns
from named
order by start_ns, event_id
