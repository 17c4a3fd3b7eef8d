-- What was alive at the peak of one recording, by category and phase: sums to the peak.
-- Parameters: rank_, source_, device_ (which).
-- Columns: category; phase (NULL when not told); blocks (NULL when only their sum is known); bytes; share (of the peak)
select
    category, phase, sum(blocks)::bigint as blocks, sum(bytes)::bigint as bytes,
    sum(bytes) / sum(sum(bytes)) over () as share
from memory_alive where rank = $rank_ and source = $source_ and device = $device_
group by category, phase order by bytes desc, category, phase
