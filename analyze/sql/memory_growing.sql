-- What stays from every step of a rank's last profiled window: bytes that an operator allocated in a step and that were
-- still there when the window ended. Its last step is left out, for what it allocated is still in use.
-- Parameters: none.
-- Columns: rank; source (the file); device; place (operator that allocated it, NULL when not told); module (NULL when not
--   told); phase; category; steps (looked at, count); bytes_per_step (the least that stayed of any of them, bytes)
with steps as (
    select c.rank, c.source, s.step
    from steps s join sources c using (rank, capture)
    where s.complete qualify s.step < max(s.step) over (partition by rank, capture)
),
looked_at as (
    select rank, source, count(*) as steps from steps group by rank, source
    having count(*) >= 2 qualify row_number() over (partition by rank order by max(step) desc) = 1
),
stayed as (
    select rank, source, device, place, module, phase, category, step, sum(bytes) as bytes
    from memory_left semi join steps using (rank, source, step) group by all
)
select
    rank, source, device, place, module, phase, any_value(category) as category, any_value(steps) as steps,
    min(bytes)::bigint as bytes_per_step
from stayed join looked_at using (rank, source)
group by rank, source, device, place, module, phase
having count(*) = any_value(steps)
order by device = 'cpu', bytes_per_step desc, rank, source, place, module, phase
