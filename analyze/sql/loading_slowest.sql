-- The samples that took longest to fetch.
-- Parameters: none.
-- Columns: rank; slowest (index in the dataset); slowest_ns (its time in the worst of its batches, ns); usual_ns
--   (median over batches of their slowest sample, ns); worker, step (of that batch); seen (batches whose slowest it was).
select
    rank, slowest, max(slowest_ns) as slowest_ns,
    (select median(o.slowest_ns) from lineage o where o.rank = l.rank) as usual_ns,
    arg_max(worker, slowest_ns) as worker, arg_max(step, slowest_ns) as step, count(*) as seen
from lineage l where slowest is not null group by rank, slowest order by slowest_ns desc, rank, slowest limit 20
