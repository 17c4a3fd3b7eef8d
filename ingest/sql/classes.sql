-- Classifies device work by evidence: collective metadata, then the launching operator or annotation, then the role of
-- the stream, then the name. A kernel without evidence of communication is compute; contradicting evidence leaves it
-- unclassified. CPU-only captures classify host work instead: operators of the training threads compute, collectives
-- communicate.
-- Parameters: none; patterns come as variables (comm_kernel, comm_launcher, comm_contradiction).
-- Creates: classes(event_id, class)
create table classes as
with kernels as (
    select
        p.event_id, t.device, t.stream, t.name, p.orphan,
        contains(coalesce(r.args, '')::varchar, '"Collective name"') as metadata,
        coalesce(regexp_matches(scope.name, getvariable('comm_launcher')), false) as launched
    from physics p
    join typed t using (event_id)
    join raw r using (event_id)
    left join nesting n on n.event_id = p.launch_id
    left join typed scope on scope.event_id = n.scope_id
    where t.kind = 'kernel'
),
judged_names as (
    select
        name,
        regexp_matches(name, getvariable('comm_kernel')) as named,
        regexp_matches(name, getvariable('comm_contradiction')) as contradicted
    from (select distinct name from kernels)
),
streams as (
    select device, stream, bool_and(metadata or launched) as communicates
    from kernels where metadata or not orphan
    group by all
),
device_classes as (
    select
        k.event_id,
        case
            when (metadata or launched) and contradicted then 'unclassified'
            when metadata or launched or named then 'communication'
            when k.orphan and communicates and not contradicted then 'communication'
            else 'compute'
        end as class
    from kernels k join judged_names using (name) left join streams using (device, stream)
    union all
    select event_id, case kind when 'copy' then 'copy' else 'compute' end
    from typed where kind in ('copy', 'memset')
),
host_classes as (
    select t.event_id, case t.kind when 'collective' then 'communication' else 'compute' end as class
    from typed t left join nesting n using (event_id)
    where t.kind = 'collective' or (
        t.kind = 'operator'
        and not coalesce(n.in_loader, false)
        and not regexp_matches(t.name, getvariable('comm_launcher'))
        and t.thread not in (
            select thread from typed where kind = 'collective' and thread is not null
            except select thread from typed where kind = 'step'
        )
    )
)
select * from device_classes
union all
select * from host_classes where not exists (select 1 from physics)
order by event_id
