-- The ledger rank by rank: mean of every category over the rank's judged steps.
-- Parameters: none.
-- Columns: rank; category; mean_ns (DOUBLE, ns a step); share (0..1 of the rank's mean step); steps (judged).
with whole as (
    select rank, count(*) as steps, sum(dur_ns) as dur_ns from judged group by rank
)
select
    rank,
    category,
    sum(ns) / any_value(whole.steps) as mean_ns,
    sum(ns) / nullif(any_value(whole.dur_ns), 0) as share,
    any_value(whole.steps) as steps
from ledger join judged using (rank, step) join whole using (rank)
group by rank, category
order by rank, category
