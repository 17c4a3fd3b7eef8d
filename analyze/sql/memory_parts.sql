-- What was alive at the peak of one recording, part by part: sums to the peak.
-- Parameters: rank_, source_, device_ (which).
-- Columns: category; phase; place; module; stack (NULL where not told); bytes
select category, phase, place, module, stack, sum(bytes)::bigint as bytes
from memory_alive where rank = $rank_ and source = $source_ and device = $device_
group by category, phase, place, module, stack order by bytes desc, category, phase, place, module, stack
