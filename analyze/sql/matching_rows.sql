-- The collectives that can be matched over ranks, text as numbers, for analyze/matching.py and analyze/waits.py.
-- Sends and receives are pairs, not collectives; of captures that conflict only the first takes part.
-- Parameters: none
-- Columns: rank, capture, event_id, clock_id (ranks on one host share it), group_id, seq (-1: not recorded), shape, place,
--   start_ns, end_ns (ns since the epoch), meets (none of its members ends before all have begun), expected (members)
with rows as (
    select
        c.*,
        case when captures.session is not null then c.step end as job_step,
        case when captures.relative or ranks.host is null then 'rank ' || c.rank else 'host ' || ranks.host end as clock,
        case when op = 'all_to_all' then null else bytes end as even_bytes  -- its sizes may differ from rank to rank
    from capture_collectives c
    join captures using (rank, capture)
    join ranks using (rank)
    where captures.counted and op not in ('send', 'recv')
)
select
    rank,
    capture,
    event_id,
    dense_rank() over (order by clock) as clock_id,
    dense_rank() over (order by pg) as group_id,
    coalesce(seq, -1) as seq,
    dense_rank() over (order by op, dtype, even_bytes) as shape,
    dense_rank() over (order by op, dtype, even_bytes, job_step) as place,
    start_ns,
    end_ns,
    op in ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier') as meets,
    coalesce(
        group_size,
        case when pg is null and (select count(distinct members) from groups) < 2 then (select max(world_size) from ranks) end,
        case when pg is not null then (select count(distinct o.rank) from rows o where o.pg = rows.pg) end,
        -1
    ) as expected
from rows
order by rank, capture, start_ns, event_id
