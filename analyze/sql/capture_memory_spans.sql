-- The allocator's moments of a capture among the host spans that can enclose them, by thread, then start, longest first.
-- Asked of the table typed: a scan of the events file needs more memory than large captures are given.
-- Parameters: none.
-- Columns: thread (a code), start_ns, end_ns (ns on the file's own clock), event_id, role (-1 a moment of the allocator; of a span
--   the phase it begins, by its place in trace_memory.PHASES, 0 for none; 5 a module, which begins none)
with threads as (
    select thread, row_number() over (order by thread) as code
    from (select distinct thread from typed where kind = 'memory' and thread is not null)
)
select
    code as thread, start_ns, start_ns + coalesce(raw_dur_ns, 0) as end_ns, event_id,
    (case
        when kind = 'memory' then -1
        when kind = 'python' then 5
        when kind = 'dataloader' then 2
        when starts_with(name, 'Optimizer.step#') or starts_with(name, 'Optimizer.zero_grad#') then 3
        when starts_with(name, 'autograd::engine::evaluate_function') then 4
        when kind = 'operator' then 1
        else 0
    end)::tinyint as role
from typed join threads using (thread)
where start_ns is not null and (
    kind = 'memory'
    or (kind in ('operator', 'annotation', 'dataloader', 'step') and raw_dur_ns > 0)
    or (kind = 'python' and starts_with(name, 'nn.Module: ') and raw_dur_ns > 0)
)
order by code, start_ns, end_ns desc, event_id
