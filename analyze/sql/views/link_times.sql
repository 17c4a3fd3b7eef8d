-- How long each group's collectives of one size take once all members have arrived, where no other collective is under way
-- on the member that arrived last: its duration is the network's.
with flights as (
    select *,
        coalesce(max(end_ns) over (by_start rows between unbounded preceding and 1 preceding) > start_ns, false)
        or coalesce(lead(start_ns) over by_start < end_ns, false) as crowded
    from collectives window by_start as (partition by rank, capture order by start_ns, event_id)
),
once as (
    select match, any_value(pg) as pg, any_value(op) as op, any_value(group_size) as group_size, any_value(bytes) as bytes,
        list(rank order by rank) as members, min(end_ns - start_ns) as ns, arg_min(crowded, end_ns - start_ns) as crowded
    from flights where wait_ns is not null and bytes > 0 group by match
)
select pg, op, group_size, bytes, members, count(*) as calls, median(ns) as ns from once where not crowded
group by pg, op, group_size, bytes, members
