-- Launches: the earliest runtime call of each correlation, and what is around it.
-- Parameters: none.
-- Creates: launches(correlation, launch_id, launch_ns, operator_id, communicates)
create table launches as
with calls as (
    select correlation, min_by(event_id, (start_ns, event_id)) as launch_id, min(start_ns) as launch_ns
    from typed
    where kind = 'runtime' and correlation > 0 and start_ns is not null
    group by correlation
)
select correlation, launch_id, launch_ns, operator_id, coalesce(n.communicates, false) as communicates
from calls left join nesting n on calls.launch_id = n.event_id
