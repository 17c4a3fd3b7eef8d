-- The modules around some spans of a capture, the outermost first, as in 'Net_0/Linear_2'.
-- Parameters: none; the table spans_wanted has the events asked for.
-- Columns: event_id; name ('' for what is in no module)
with recursive spans as materialized (
    select event_id, parent_id, case when starts_with(name, 'nn.Module: ') then substr(name, 12) end as module
    from events where kind in ('python', 'operator', 'annotation', 'step') and exists (from spans_wanted where event_id >= 0)
),
up as (
    select event_id as wanted, event_id, parent_id, module, 0 as depth from spans semi join spans_wanted using (event_id)
    union all
    select wanted, s.event_id, s.parent_id, s.module, depth + 1 from up join spans s on s.event_id = up.parent_id
),
paths as (select wanted, string_agg(module, '/' order by depth desc) as name from up group by wanted)
select event_id, coalesce(name, '') as name from spans_wanted left join paths on event_id = wanted order by event_id
