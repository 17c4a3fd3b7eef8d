-- Puts a stretch of a capture's events together, in file order, with stamps on the epoch's clock.
-- Device work is classified by evidence: collective metadata, the launching operator or annotation, the role of the
-- stream, the name. A kernel without evidence of communication is compute; contradicting evidence leaves it
-- unclassified. CPU-only captures classify host work: operators of the training threads compute, collectives communicate.
-- Parameters: $capture_id; $first, $last, the stretch of event ids; $base_ns, added to every stamp; $zero_is_missing,
--   whether a host stamp of 0 is no stamp; $has_device_work. The function step_of(ns) gives the step of a moment.
-- Columns: ingest.schema.EVENTS
with stretch as (
    select *, start_ns is null or (start_ns = 0 and $zero_is_missing) as no_start
    from typed where event_id between $first and $last
)
select
    $capture_id::bigint as capture_id,
    t.event_id,
    t.kind,
    t.name,
    case
        when t.kind = 'memset' then 'compute'
        when t.kind = 'copy' then 'copy'
        when t.kind = 'kernel' then case
            when (t.told_collective or p.launcher_communicates or k.named) and k.contradicted then 'unclassified'
            when t.told_collective or p.launcher_communicates or k.named then 'communication'
            when p.launch_id is null and s.stream is not null and not k.contradicted then 'communication'
            else 'compute'
        end
        when $has_device_work then null
        when t.kind = 'collective' then 'communication'
        when t.kind = 'operator' and not t.communicates and not coalesce(n.in_loader, false) and h.thread is null
        then 'compute'
    end as class,
    t.device,
    t.stream,
    t.thread,
    case when p.event_id is not null then p.start_ns when not t.no_start then t.start_ns end + $base_ns::bigint as start_ns,
    case
        when p.event_id is not null then coalesce(c.dur_ns, p.dur_ns)
        when not t.no_start and t.raw_dur_ns >= 0 then t.raw_dur_ns
    end as dur_ns,
    t.raw_dur_ns,
    t.correlation,
    t.external_id,
    coalesce(p.launch_id, n.parent_id) as parent_id,
    step_of(case when p.event_id is not null then p.launch_ns else t.start_ns end) as step,
    case
        when p.event_id is not null then nullif(list_filter([
            case when p.untimed then 'untimed' end,
            case when c.dur_ns is not null then 'clipped' end,
            case when c.overrun then 'overrun' end,
            case when p.start_ns < p.launch_ns and not p.foreign_clock then 'before_launch' end,
            case when p.foreign_clock then 'foreign_clock' end,
            case when p.launch_id is null then 'orphan' end
        ], lambda flag: flag is not null), [])
        when t.spans and (t.no_start or coalesce(t.raw_dur_ns < 0, true)) then ['untimed']
    end as flags,
    nullif(case when t.spans and t.args is not null then json_merge_patch(
        t.args,
        case when t.stream is null then '{"External id":null,"external id":null,"correlation":null}'
        else '{"External id":null,"external id":null,"correlation":null,"device":null,"stream":null}' end
    ) else t.args end::varchar, '{}') as args
from stretch t
left join (from physics where event_id between $first and $last) p on t.event_id = p.event_id
left join (from nesting where event_id between $first and $last) n on t.event_id = n.event_id
left join (from clips where event_id between $first and $last) c on t.event_id = c.event_id
left join kernel_names k on t.kind = 'kernel' and t.name = k.name
left join comm_streams s on t.kind = 'kernel' and t.device is not distinct from s.device and t.stream = s.stream
left join collective_threads h on t.thread = h.thread
