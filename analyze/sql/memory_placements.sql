-- What the rank with the largest states would hold and send in a step, strategy by strategy.
-- Parameters: none.
-- Columns: rank, ranks (it is placed on); strategy; parameters, gradients, optimizer, activations, total (bytes on each
--   rank, activations NULL when not measured); moved (bytes it sends in a step, NULL when unknown), host (bytes over its
--   link to the host in a step); fits (yes, no, NULL when not told)
select
    rank, ranks, strategy, parameters, gradients, optimizer, activations, total, moved, host,
    case fits when true then 'yes' when false then 'no' end as fits
from placements
where rank = (select arg_max(rank, total) from placements where strategy = 'data parallel')
