-- The ledger; where it is known whether exposed communication moved data or waited for other ranks, it is told apart.
select rank, step, category, ns, capture from capture_ledger l
where category <> 'exposed_comm' or not exists (from comm_split s where (s.rank, s.capture, s.step) = (l.rank, l.capture, l.step))
union all
select rank, step, category, ns, capture from (
    select rank, step, capture, unnest(['comm_transfer', 'comm_wait', 'exposed_comm']) as category,
        unnest([transfer_ns, wait_ns, rest_ns]) as ns
    from comm_split
) where category <> 'exposed_comm' or ns > 0
