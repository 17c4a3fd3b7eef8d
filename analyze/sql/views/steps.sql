-- Steps come from two layers; a profiled step is not repeated by the timer's row of it.
select rank, capture, step, label, start_ns, end_ns, dur_ns, source, complete, reason from capture_steps
union all
select rank, null, step, null, start_ns, end_ns, end_ns - start_ns, 'timer', true, null
from timer t anti join capture_steps s using (rank, step)
