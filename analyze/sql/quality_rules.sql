-- What was noticed about the traces, by rule: how often, on how many ranks, and how far it moved the headline numbers.
-- Parameters: none.
-- Columns: rule; rows; ranks; count (events or files concerned); effect_ns (sum, NULL when it cannot be told);
--   sentence (of the row with the largest effect).
select
    rule, count(*) as rows, count(distinct rank) as ranks, sum(count)::bigint as count,
    sum(effect_ns)::bigint as effect_ns, arg_max(sentence, coalesce(effect_ns, 0)) as sentence
from quality group by rule order by effect_ns desc nulls last, count desc nulls last, rule
