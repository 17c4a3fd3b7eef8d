-- The edges of passes over torch DataLoaders, which are no part of the steady wait.
-- Parameters: none.
-- Columns: rank; workers; persistent; passes; batches; first_ns (start-up of the first pass: from the making of the
--   iterator to the first batch, ns); later_ns (mean start-up of the later ones, ns; NULL when there is none); end_ns
--   (DOUBLE: mean time of the request that finds nothing more, ns; NULL when every pass was broken off).
select
    rank, workers, persistent, count(*) as passes, sum(batches)::bigint as batches,
    arg_min(startup_ns, begun_ns) as first_ns, avg(startup_ns) filter (where nth > 1) as later_ns, avg(end_ns) as end_ns
from (
    select *, row_number() over (partition by rank, workers, persistent order by begun_ns) as nth from loader_passes
)
group by rank, workers, persistent order by rank, workers, persistent
