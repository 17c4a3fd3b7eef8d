-- The collectives of a capture: communication kernels on a device, or host spans of a CPU backend.
-- What a collective is comes from the kernel's own metadata, else from the annotation or operator that launched it
-- (nccl:all_reduce with its input's shape), else from its name. An input tells the whole buffer of all operations but
-- all_gather, whose buffer is the output: its bytes are then unknown.
-- Parameters: none; names come as variables (collective_ops, dtype_bytes).
-- Columns: event_id, step, pg, seq, op, bytes (of the whole buffer), dtype, group_size, start_ns (ns since the epoch), end_ns,
--   and of host spans alone name, thread, input_elements and element_bytes, NULL where there is no input
with collective_events as materialized (
    select event_id, step, kind, name, thread, start_ns, dur_ns, parent_id, args from events
    where dur_ns is not null and class = 'communication' and kind in ('kernel', 'collective')
      and not coalesce(list_contains(flags, 'foreign_clock'), false)
),
scopes as (
    select n.event_id, t.name, t.args::varchar as args
    from nesting n join typed t on t.event_id = n.scope_id
    where n.event_id in (select parent_id from collective_events) and n.communicates
),
found as (
    select
        e.event_id, e.step, e.kind, e.name, e.thread, e.start_ns, e.start_ns + e.dur_ns as end_ns,
        json_extract_string(e.args, [
            '$."Collective name"', '$.dtype', '$."In msg nelems"', '$."Out msg nelems"', '$."Group size"',
            '$."Process Group Name"', '$.Seq'
        ]) as meta,
        case when e.kind = 'collective' then e.name else scope.name end as scope_name,
        case when e.kind = 'collective' then e.args else scope.args end as scope_args
    from collective_events e left join scopes scope on scope.event_id = e.parent_id
),
ops as (  -- a few texts stand for thousands of collectives, and patterns are dear
    select text, list_filter(
        getvariable('collective_ops'), lambda one: regexp_matches(text, '(?i)' || one.pattern)
    )[1].op as op
    from (
        select meta[1] as text from found union select scope_name from found union select name from found
    ) where text is not null
),
named as (
    select
        found.*,
        case when meta[1] is not null then told.op else coalesce(scoped.op, called.op) end as op,
        greatest(try_cast(meta[3] as bigint), try_cast(meta[4] as bigint)) as told_elements,
        json_extract_string(scope_args, '$."Input type"[0]') as input_type,
        list_sum(list_transform(
            try_cast(json_extract(scope_args, '$."Input Dims"') as bigint[][]), lambda dims: list_product(dims)
        )) as input_elements
    from found
    left join ops told on told.text = meta[1]
    left join ops scoped on scoped.text = scope_name
    left join ops called on called.text = name
),
sized as (
    select
        *,
        coalesce(meta[2], input_type) as told_dtype,
        coalesce(told_elements, case when op not in ('all_gather', 'barrier') then input_elements end) as elements
    from named
)
select
    event_id,
    step,
    meta[6] as pg,
    try_cast(meta[7] as bigint) as seq,
    op,
    (elements * getvariable('dtype_bytes')[lower(told_dtype)])::bigint as bytes,
    nullif(told_dtype, '') as dtype,
    try_cast(meta[5] as bigint) as group_size,
    start_ns,
    end_ns,
    case when kind = 'collective' then name end as name,
    case when kind = 'collective' then thread end as thread,
    case when kind = 'collective' then input_elements::bigint end as input_elements,
    getvariable('dtype_bytes')[lower(told_dtype)] as element_bytes
from sized
order by start_ns, event_id
