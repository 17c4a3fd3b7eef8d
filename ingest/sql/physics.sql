-- Judges device work before any number is made of it: no timing, another clock, overruns, launches.
-- Parameters: $tolerance_ns, the overlap of neighbours on a stream that is still believed; $foreign_ns, how far from
--   the host's events a stamp is of another clock.
-- Creates: physics(event_id, start_ns, dur_ns, launch_id, launch_ns, untimed, foreign_clock, orphan, flags)
--   for kernels, copies and memsets. A launch is the earliest runtime call with the event's correlation.
create table physics as
with launches as (
    select correlation, min_by(event_id, (start_ns, event_id)) as launch_id, min(start_ns) as launch_ns
    from typed
    where kind = 'runtime' and correlation > 0 and start_ns is not null
    group by correlation
),
host as (
    select min(start_ns) as first_ns, max(start_ns + coalesce(raw_dur_ns, 0)) as last_ns
    from typed
    where kind in ('operator', 'annotation', 'runtime', 'step') and start_ns <> 0
),
work as (
    select
        d.event_id, d.kind, d.name, d.device, d.stream, d.raw_dur_ns, launch_id, launch_ns,
        d.start_ns is null or d.start_ns = 0 as no_start,
        coalesce(d.raw_dur_ns < 0, true) or no_start as untimed,
        case when not no_start then d.start_ns end as start_ns,
        not no_start and coalesce(
            d.start_ns < first_ns - $foreign_ns or d.start_ns > last_ns + $foreign_ns, false
        ) as foreign_clock
    from typed d cross join host left join launches l on d.correlation = l.correlation
    where d.kind in ('kernel', 'copy', 'memset')
),
neighbours as (
    select
        *,
        lead(start_ns) over (partition by device, stream order by start_ns, raw_dur_ns, event_id) as next_ns,
        median(raw_dur_ns) over (partition by name) as usual_ns
    from work
    where kind = 'kernel' and not untimed and not foreign_clock
)
select
    w.event_id,
    w.start_ns,
    case
        when w.untimed then null
        when w.start_ns + w.raw_dur_ns - next_ns > $tolerance_ns then next_ns - w.start_ns
        else w.raw_dur_ns
    end as dur_ns,
    w.launch_id,
    w.launch_ns,
    w.untimed,
    w.foreign_clock,
    w.launch_id is null as orphan,
    nullif(list_filter([
        case when w.untimed then 'untimed' end,
        case when w.start_ns + w.raw_dur_ns - next_ns > $tolerance_ns then 'clipped' end,
        case when n.event_id is not null and next_ns is null and w.raw_dur_ns > 100 * usual_ns then 'overrun' end,
        case when w.start_ns < w.launch_ns and not w.foreign_clock then 'before_launch' end,
        case when w.foreign_clock then 'foreign_clock' end,
        case when w.launch_id is null then 'orphan' end
    ], lambda flag: flag is not null), []) as flags
from work w left join neighbours n using (event_id)
order by w.event_id
