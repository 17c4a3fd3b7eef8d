-- What each recording of memory (a window's allocator events, a snapshot, a timeline) says, accelerators first.
-- Parameters: none.
-- Columns: rank; source (the file); device; peak (most bytes alive at once), before (alive when the recording began),
--   at_end; reserved, free, largest_free, private_reserved, private_free (bytes of the allocator's pools, NULL where no
--   segments are told); ooms (out-of-memory errors, NULL where not told); unmatched (events left out)
select
    rank, source, device, peak, before, at_end, reserved, free, largest_free, private_reserved, private_free, ooms,
    unmatched
from memory_peaks order by device = 'cpu', peak desc, rank, source
