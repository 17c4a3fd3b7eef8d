-- The ledger of the first steps of some ranks, as it stands: per rank and step the categories sum to the step.
-- Parameters: limit_ranks (the slowest so many ranks), limit_steps (the first so many steps of each).
-- Columns: rank; step; complete; category; ns.
with profiled as (
    select rank, step, dur_ns, coalesce(complete, false) as complete from steps where source <> 'timer'
), slowest as (
    select rank from profiled group by rank order by avg(dur_ns) desc, rank limit $limit_ranks
), drawn as (
    select rank, step, complete from profiled semi join slowest using (rank)
    qualify row_number() over (partition by rank order by step) <= $limit_steps
)
select rank, step, complete, category, ns
from ledger join drawn using (rank, step)
order by rank, step, category
