-- Gives each raw event its kind and its integer columns, in file order. Stamps are the file's own, not yet plus the base.
-- Parameters: $farthest_ns, $longest_ns, beyond which a stamp or a duration is none: they would not add up. Patterns and
--   the kind map come as variables (kinds, step_span, loader_span, collective_span, comm_launcher).
-- Creates: typed(event_id, kind, spans, name, device, stream, thread, start_ns, raw_dur_ns, correlation, external_id,
--   told_collective: a kernel with collective metadata, communicates: an operator or annotation that launches
--   collectives, args)
create table typed as
with read as (
    select
        event_id, ph, name, tid, pid, ts_ns, dur_ns, args,
        getvariable('kinds')[lower(cat)] as category_kind,
        case when ph = 'X' and args is not null then json_extract_string(args, [
            '$."External id"', '$."external id"', '$.correlation', '$.device', '$.stream', '$."sycl queue"'
        ]) end as found
    from raw
)
select
    event_id,
    case
        when ph = 'C' then 'counter'
        when ph in ('i', 'I') and name = '[memory]' then 'memory'
        when ph <> 'X' or category_kind is null then 'other'
        when category_kind in ('operator', 'annotation') then case
            when regexp_matches(name, getvariable('step_span')) then 'step'
            when regexp_matches(name, getvariable('loader_span')) then 'dataloader'
            when category_kind = 'annotation' and regexp_matches(name, getvariable('collective_span')) then 'collective'
            else category_kind
        end
        else category_kind
    end as kind,
    ph = 'X' as spans,
    name,
    case when kind in ('kernel', 'copy', 'memset', 'device_annotation', 'sync')
        then coalesce(try_cast(found[4] as bigint), try_cast(pid as bigint)) end as device,
    case when kind in ('kernel', 'copy', 'memset', 'device_annotation', 'sync')
        then coalesce(found[5], found[6], regexp_replace(tid, '^stream ', '')) end as stream,
    case when kind not in ('kernel', 'copy', 'memset', 'device_annotation', 'sync') then tid end as thread,
    case when ph <> 'M' and ts_ns between -$farthest_ns and $farthest_ns then ts_ns end as start_ns,
    case when dur_ns between -$longest_ns and $longest_ns then dur_ns end as raw_dur_ns,
    try_cast(found[3] as bigint) as correlation,
    try_cast(coalesce(found[1], found[2]) as bigint) as external_id,
    kind = 'kernel' and coalesce(contains(args::varchar, '"Collective name"'), false) as told_collective,
    kind in ('operator', 'annotation') and regexp_matches(name, getvariable('comm_launcher')) as communicates,
    args
from read
