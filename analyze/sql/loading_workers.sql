-- What each worker of a torch DataLoader spent its fetches on.
-- Parameters: none.
-- Columns: rank; worker (NULL: the loop's own process); batches; mean_fetch_ns (DOUBLE), worst_fetch_ns (ns); cpu, core,
--   blocked (shares of the fetch time: working, waiting for a core, waiting for anything else); read_bytes (bytes read
--   from storage); behind_ns (ns that the loop waited for its batches while later ones were ready).
select
    rank, worker, count(*) as batches, avg(fetch_ns) as mean_fetch_ns, max(fetch_ns) as worst_fetch_ns,
    sum(cpu_ns) / nullif(sum(fetch_ns), 0) as cpu, sum(runq_ns) / nullif(sum(fetch_ns), 0) as core,
    sum(blocked_ns) / nullif(sum(fetch_ns), 0) as blocked,
    sum(read_bytes)::bigint as read_bytes, sum(blocked_behind_ns)::bigint as behind_ns
from lineage where fetch_ns is not null group by rank, worker order by rank, worker
