-- Live bytes of one recording over time by category; of every stretch of time its highest moment.
-- Parameters: rank_, source_, device_ (which).
-- Columns: at_ns (ns after the first point); category; bytes
select t_ns - min(t_ns) over () as at_ns, category, bytes
from memory_lines where rank = $rank_ and source = $source_ and device = $device_
order by t_ns, category
