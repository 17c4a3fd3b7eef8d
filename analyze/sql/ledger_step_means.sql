-- The ledger step by step: mean of every category over the ranks that profiled the step.
-- Parameters: limit_steps (the first so many steps).
-- Columns: step; category; mean_ns (DOUBLE, ns); ranks; complete (whether the step is complete on all of them).
with profiled as (
    select rank, step, coalesce(complete, false) as complete from steps where source <> 'timer'
), whole as (
    select step, count(*) as ranks, bool_and(complete) as complete from profiled
    group by step order by step limit $limit_steps
)
select step, category, sum(ns) / any_value(ranks) as mean_ns, any_value(ranks) as ranks, bool_and(whole.complete) as complete
from ledger join profiled using (rank, step) join whole using (step)
group by step, category
order by step, category
