-- What is known across ranks is in the tables matched, comm_split and exposed_waits, which cross.py fills when it is asked for.
select c.rank, c.capture, pg, seq, op, bytes, dtype, group_size, start_ns, end_ns, m.wait_ns, m.transfer_ns, exposed_ns,
    algbw, busbw, step, event_id, m.match, m.late_rank, m.late_certain, e.exposed_wait_ns,
    exposed_ns - e.exposed_wait_ns as exposed_transfer_ns, m.wait_least_ns, m.wait_most_ns
from capture_collectives c left join matched m using (rank, capture, event_id)
left join exposed_waits e using (rank, capture, event_id);

-- The ledger
