-- The median and the worst of the judged steps of all ranks; with a single judged step only the worst.
-- Parameters: none.
-- Columns: role (median, worst); rank; capture; step; label; start_ns, end_ns, dur_ns; steps (judged, in all).
with profiled as (
    select rank, capture, step, label, start_ns, end_ns, dur_ns, coalesce(complete, false) as complete
    from steps where source <> 'timer' and start_ns is not null and end_ns is not null
), judged as (
    select *, row_number() over (order by dur_ns, rank, step) as place, count(*) over () as steps
    from profiled where complete = (select bool_or(complete) from profiled)
)
select
    if(place = steps, 'worst', 'median') as role, rank, capture, step, label, start_ns, end_ns, dur_ns, steps
from judged where place = steps or place = (steps + 1) // 2
order by place
