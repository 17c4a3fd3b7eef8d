-- Judges the stamps of device work and links it to its launches, before any number is made of it.
-- Parameters: $foreign_ns, how far from all host events a stamp is of another clock.
-- Creates: physics(event_id, kind, device, stream, start_ns, dur_ns (NULL when untimed), untimed, foreign_clock,
--   launch_id, launch_ns, operator_id, launcher_communicates) for kernels, copies and memsets, in file order.
create table physics as
with host as (
    select min(start_ns) as first_ns, max(start_ns + coalesce(raw_dur_ns, 0)) as last_ns
    from typed
    where kind in ('operator', 'annotation', 'runtime', 'step') and start_ns <> 0
),
work as (
    select
        event_id, kind, device, stream, correlation, raw_dur_ns,
        start_ns is null or start_ns = 0 as no_start,
        coalesce(raw_dur_ns < 0, true) or no_start as untimed,
        case when not no_start then start_ns end as start_ns,
        not no_start and coalesce(
            start_ns < first_ns - $foreign_ns or start_ns > last_ns + $foreign_ns, false
        ) as foreign_clock
    from typed cross join host
    where kind in ('kernel', 'copy', 'memset')
)
select
    event_id, kind, device, stream, start_ns,
    case when not untimed then raw_dur_ns end as dur_ns,
    untimed, foreign_clock, launch_id, launch_ns, operator_id, coalesce(communicates, false) as launcher_communicates
from work left join launches using (correlation)
