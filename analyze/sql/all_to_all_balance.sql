-- How unevenly all-to-alls are filled: of each group the most that a rank sends against the mean, over judged steps.
-- Parameters: none
-- Columns: pg, rank (that sends most most often), calls (matched all-to-alls), most_times (how often it is that rank), mean_bytes
--   (a rank and call, DOUBLE), imbalance (most / mean, median over calls, 1 is even), worst (the same, at worst)
with calls as (
    select match, any_value(pg) as pg, arg_max(rank, bytes) as rank, max(bytes) as most, avg(bytes) as mean
    from collectives semi join judged using (rank, capture, step)
    where op = 'all_to_all' and match is not null and bytes > 0 group by match
),
ranks as (select pg, rank, count(*) as times from calls group by all)
select c.pg, (select arg_max(rank, times) from ranks r where r.pg is not distinct from c.pg) as rank, count(*) as calls,
    (select max(times) from ranks r where r.pg is not distinct from c.pg) as most_times, avg(mean) as mean_bytes,
    median(most / mean) as imbalance, max(most / mean) as worst
from calls c group by c.pg order by c.pg
