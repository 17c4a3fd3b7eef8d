-- Host events in the order in which they nest: by thread, then start, the longest first. Of those that coincide the kind
-- tells which is around the other, not their place in the file.
-- Parameters: none.
-- Columns: thread (a code), event_id, start_ns, end_ns (the file's own clock), role (bits: 1 operator, 2 annotation,
--   4 loader's next(), 8 communicates, 16 runtime call)
with threads as (
    select thread, row_number() over (order by thread) as code
    from (select distinct thread from typed where thread is not null)
)
select
    code as thread, event_id, start_ns, start_ns + raw_dur_ns as end_ns,
    case kind when 'operator' then 1 when 'annotation' then 2 when 'dataloader' then 4 when 'runtime' then 16 else 0 end
        + case when communicates then 8 else 0 end as role
from typed join threads using (thread)
where kind in ('operator', 'annotation', 'runtime', 'python', 'step', 'dataloader', 'collective', 'overhead')
  and start_ns is not null and raw_dur_ns >= 0
order by code, start_ns, end_ns desc,
    list_position(['step', 'dataloader', 'annotation', 'python', 'operator', 'collective', 'runtime', 'overhead'], kind), event_id
