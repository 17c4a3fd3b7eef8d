-- The steps that averages are made of: the complete ones of counted captures, all that took time when none is complete.
select s.rank, s.capture, s.step, s.dur_ns
from capture_steps s join counted using (rank, capture)
where s.dur_ns > 0 and (s.complete or not exists (select 1 from capture_steps where complete))
