-- Puts the events of a capture together, in file order, with stamps on the epoch's clock.
-- Parameters: $capture_id; $base_ns, added to every stamp; $zero_is_missing, whether a host stamp of 0 is no stamp;
--   $only_step, the step of everything in a capture without markers, else NULL.
--   The function step_of(ns) gives the step whose marker holds a moment.
-- Columns: ingest.schema.EVENTS. Rows keep the order of `typed`, so nothing is sorted.
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
    coalesce($only_step, step_of(case when p.event_id is not null then p.launch_ns else t.start_ns end)) as step,
    case
        when p.event_id is not null then p.flags
        when t.spans and (t.start_ns is null or (t.start_ns = 0 and $zero_is_missing) or coalesce(t.raw_dur_ns < 0, true))
        then ['untimed']
    end as flags,
    nullif(json_merge_patch(r.args, '{"External id":null,"external id":null,"correlation":null,"device":null,"stream":null}')::varchar, '{}') as args
from typed t
positional join raw r
left join physics p on t.event_id = p.event_id
left join nesting n on t.event_id = n.event_id
left join classes c on t.event_id = c.event_id
