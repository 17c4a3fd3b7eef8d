-- Puts the events of a capture together, in file order, with stamps on the epoch's clock.
-- Parameters: $capture_id; $base_ns, added to every stamp; $zero_is_missing, whether a host stamp of 0 is no stamp;
--   $only_step, the step of everything in a capture without markers, else NULL.
-- Columns: ingest.schema.EVENTS
select
    $capture_id::bigint as capture_id,
    t.event_id,
    t.kind,
    t.name,
    c.class,
    t.device,
    t.stream,
    t.thread,
    case
        when p.event_id is not null then p.start_ns
        when t.start_ns = 0 and $zero_is_missing then null
        else t.start_ns
    end + $base_ns::bigint as start_ns,
    case
        when p.event_id is not null then p.dur_ns
        when t.start_ns is null or (t.start_ns = 0 and $zero_is_missing) or t.raw_dur_ns < 0 then null
        else t.raw_dur_ns
    end as dur_ns,
    t.raw_dur_ns,
    t.correlation,
    t.external_id,
    coalesce(p.launch_id, n.parent_id) as parent_id,
    coalesce(case when coalesce(p.launch_ns, t.start_ns) < m.end_ns then m.step end, $only_step) as step,
    case when p.event_id is not null
        then nullif(list_filter([
            case when p.untimed then 'untimed' end,
            case when p.clipped then 'clipped' end,
            case when p.overrun then 'overrun' end,
            case when p.before_launch then 'before_launch' end,
            case when p.foreign_clock then 'foreign_clock' end,
            case when p.orphan then 'orphan' end
        ], lambda flag: flag is not null), [])
        when t.spans and (t.start_ns is null or (t.start_ns = 0 and $zero_is_missing) or coalesce(t.raw_dur_ns < 0, true))
        then ['untimed']
    end as flags,
    nullif(json_merge_patch(r.args, '{"External id":null,"external id":null,"correlation":null,"device":null,"stream":null}')::varchar, '{}') as args
from typed t
join raw r using (event_id)
left join physics p using (event_id)
left join nesting n using (event_id)
left join classes c using (event_id)
asof left join markers m on coalesce(p.launch_ns, case when p.event_id is null then t.start_ns end) >= m.start_ns
order by t.event_id
