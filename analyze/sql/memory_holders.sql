-- Who allocated what was alive at the peak of one recording, the most first.
-- Parameters: rank_, source_, device_ (which); limit (rows).
-- Columns: place (operator, or innermost frame outside of libraries; NULL when not told); category; phase; blocks (NULL
--   when only their sum is known); bytes; stack (of the largest part, NULL when not told)
select
    place, category, phase, sum(blocks)::bigint as blocks, sum(bytes)::bigint as bytes, arg_max(stack, bytes) as stack
from memory_alive alive where rank = $rank_ and source = $source_ and device = $device_
group by place, category, phase order by sum(bytes) desc, place, category, phase limit $limit
