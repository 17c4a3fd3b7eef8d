-- Who keeps the others waiting, and what that rank does more of than the others meanwhile.
-- Parameters: none
-- Columns: late_rank (NULL: the clocks leave a doubt), cause (a ledger category; NULL: none stands out),
--   steps (count), wait_ns (rank time, ns), exposed_ns (of it not hidden by compute, at most, ns), share (of all waiting)
select
    late_rank, cause, count(distinct step) as steps, sum(wait_ns)::bigint as wait_ns, sum(exposed_ns)::bigint as exposed_ns,
    sum(wait_ns) / sum(sum(wait_ns)) over () as share
from blame group by late_rank, cause order by wait_ns desc, late_rank, cause
