-- Where a step's time goes: the mean of every ledger category over the judged steps of all ranks. They add up to the
-- mean step. A category that no trace could show has no row.
-- Parameters: none.
-- Columns: category; mean_ns (DOUBLE, ns a step); share (0..1 of the mean step); total_ns; steps (judged).
with whole as (
    select count(*) as steps, sum(dur_ns) as dur_ns from judged
)
select
    category,
    sum(ns) / any_value(whole.steps) as mean_ns,
    sum(ns) / nullif(any_value(whole.dur_ns), 0) as share,
    sum(ns)::bigint as total_ns,
    any_value(whole.steps) as steps
from ledger join judged using (rank, step), whole
group by category
order by total_ns desc, category
