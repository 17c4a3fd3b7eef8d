-- How fast each group's collectives are once all have arrived: time = latency + bytes / bandwidth, over the sizes.
-- A collective's time is that of its fastest member; a size's time is the median of its collectives.
-- Parameters: none
-- Columns: pg, op, group_size, calls, sizes (distinct), smallest, largest (bytes), latency_ns, bandwidth (bytes/s, NULL when
--   fewer than three sizes or no growth with size tell it), fit (r squared, 0..1)
with once as (
    select pg, op, group_size, bytes, match, min(transfer_ns) as ns
    from collectives semi join judged using (rank, capture, step)
    where transfer_ns is not null and bytes > 0 group by all
),
by_size as (select pg, op, group_size, bytes, count(*) as calls, median(ns) as ns from once group by all),
fits as (
    select pg, op, group_size, sum(calls)::bigint as calls, count(*) as sizes, min(bytes) as smallest, max(bytes) as largest,
        regr_slope(ns, bytes) as slope, regr_intercept(ns, bytes) as intercept, regr_r2(ns, bytes) as r2
    from by_size group by all
)
select pg, op, group_size, calls, sizes, smallest, largest,
    case when sizes >= 3 and slope > 0 then intercept end as latency_ns,
    case when sizes >= 3 and slope > 0 then 1e9 / slope end as bandwidth,
    case when sizes >= 3 and slope > 0 then r2 end as fit
from fits order by pg, op
