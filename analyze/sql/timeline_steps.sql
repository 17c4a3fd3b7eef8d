-- The median and the worst of the judged steps of all ranks; with a single judged step only the worst.
-- Parameters: none.
-- Columns: role (median, worst); rank; capture; step; label; start_ns, end_ns, dur_ns; steps (judged, in all).
with placed as (
    select
        rank, capture, step, label, start_ns, end_ns, s.dur_ns,
        row_number() over (order by s.dur_ns, rank, step) as place, count(*) over () as steps
    from judged join steps s using (rank, capture, step) where start_ns is not null and end_ns is not null
)
select
    if(place = steps, 'worst', 'median') as role, rank, capture, step, label, start_ns, end_ns, dur_ns, steps
from placed where place = steps or place = (steps + 1) // 2
order by place
