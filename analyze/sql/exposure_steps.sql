-- The profiled steps whose exposed communication the ledger has.
-- Parameters: none
-- Columns: rank, capture, step, start_ns, end_ns (ns since the epoch)
select s.rank, s.capture, s.step, s.start_ns, s.end_ns
from capture_steps s semi join (from capture_ledger where category = 'exposed_comm') l using (rank, capture, step)
order by s.rank, s.capture, s.start_ns
