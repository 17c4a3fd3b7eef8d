"""The tables of a run: names, columns, types and units.

Every time is integer nanoseconds since the Unix epoch (``*_ns``), every duration integer nanoseconds, every size
bytes. Unknown is NULL. Definitions of what the columns mean are in ``docs/definitions.md``.

Tables named here are Parquet files under ``RUN/<table>/rank=00003/<name>.parquet``. What belongs to one capture (one
trace file) is stored in that capture's own terms: ``capture_id`` names it and ``step`` is its ordinal within the
capture. The views of ``analyze/run.py`` put rank, capture number and job step in their place, so a new capture never
rewrites an old file.

This module is imported by the collector, inside a training job: pyarrow is all it may load.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA = "stepscope/run/1"
SCHEMA_FAMILY = "stepscope/run/"

FARTHEST_NS = (1 << 61) - 1  # 73 years: a stamp and a base of less than twice that add up within an int64
LONGEST_NS = (1 << 55) - 1  # a year and more: no trace is as long, and durations add up within an int64

KINDS = [
    "step",
    "operator",
    "python",
    "annotation",
    "dataloader",
    "runtime",
    "kernel",
    "copy",
    "memset",
    "sync",
    "collective",
    "memory",
    "device_annotation",
    "overhead",
    "counter",
    "other",
]
CLASSES = ("compute", "communication", "copy", "unclassified")
FLAGS = ("untimed", "clipped", "overrun", "before_launch", "foreign_clock", "orphan")

# The ledger's categories, in order of priority: each takes only time that earlier ones did not.
LEDGER_CATEGORIES = (
    "compute",
    "exposed_comm",
    "exposed_copy",
    "unclassified",
    "data_wait",
    "sync",
    "allocator",
    "host",
    "unexplained",
)
# What becomes of ``exposed_comm`` where the ranks' collectives are matched: moving data, waiting for the last to arrive.
COMM_SPLIT = ("comm_transfer", "comm_wait")

_i64, _f64, _str, _bool = pa.int64(), pa.float64(), pa.string(), pa.bool_()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


# One row a trace file that was looked at, usable or not. It is written last: a capture exists when its row does.
SOURCES = _schema(
    source=_str,  # the path or URI as found
    bytes=_i64,
    sha256=_str,
    capture_id=_i64,  # NULL when no event is used
    format=_str,  # kineto, chrome, memory_snapshot, memory_timeline, unknown
    claimed_rank=_i64,  # rank by content or file name, NULL when neither tells
    rank_source=_str,  # distributedInfo, filename, NULL (then resolved to order or none)
    world_size=_i64,
    host=_str,
    devices=_i64,
    device_name=_str,
    device_memory=_i64,  # bytes of one device
    backend=_str,
    base_ns=_i64,  # baseTimeNanoseconds; 0 when the vintage has none; NULL when a cut file has lost it
    start_ns=_i64,
    end_ns=_i64,
    n_steps=_i64,
    first_job_step=_i64,  # the job's own number of the capture's first step, when our collector wrote it
    session=_str,  # the collector's session, NULL for others' traces
    verdict=_str,  # ok, repaired, truncated, quarantined
    reason=_str,
    events=_i64,
    events_repaired=_i64,
    events_dropped=_i64,
    detail=_str,
    header=_str,  # JSON text of what stood around the events
)

EVENTS = _schema(
    capture_id=_i64,
    event_id=_i64,  # position among the kept events of the file
    kind=_str,
    name=_str,
    **{"class": _str},
    device=_i64,
    stream=_str,
    thread=_str,
    start_ns=_i64,
    dur_ns=_i64,
    raw_dur_ns=_i64,
    correlation=_i64,
    external_id=_i64,
    parent_id=_i64,  # enclosing host event; for device work the host event that launched it
    step=_i64,
    flags=pa.list_(_str),
    args=_str,
)

STEPS = _schema(
    capture_id=_i64,
    step=_i64,
    label=_str,
    start_ns=_i64,
    end_ns=_i64,
    dur_ns=_i64,
    source=_str,  # profiler, window
    complete=_bool,
    reason=_str,  # why a step is not complete
)

LEDGER = _schema(capture_id=_i64, step=_i64, category=_str, ns=_i64)

# The ledger of the way to each collective, since the previous one of its group.
APPROACHES = _schema(capture_id=_i64, event_id=_i64, category=_str, ns=_i64)

# When communication runs and nothing computes: what the ledger's ``exposed_comm`` is the sum of.
EXPOSED_COMM = _schema(capture_id=_i64, start_ns=_i64, end_ns=_i64)

DEVICE_TIME = _schema(
    capture_id=_i64,
    device=_i64,
    policy=_str,
    span_ns=_i64,
    busy_ns=_i64,
    idle_ns=_i64,
    compute_ns=_i64,
    comm_ns=_i64,
    exposed_comm_ns=_i64,
    overlapped_comm_ns=_i64,
    copy_ns=_i64,
    exposed_copy_ns=_i64,
    unclassified_ns=_i64,
)

KERNELS = _schema(
    capture_id=_i64,
    device=_i64,
    name=_str,
    **{"class": _str},
    calls=_i64,
    sum_ns=_i64,
    mean_ns=_f64,
    min_ns=_i64,
    max_ns=_i64,
)

OPERATORS = _schema(capture_id=_i64, name=_str, calls=_i64, host_ns=_i64, host_self_ns=_i64, device_ns=_i64)

BATCHES = _schema(
    capture_id=_i64,
    batch=_i64,  # ordinal within the capture
    step=_i64,
    wait_start_ns=_i64,
    wait_ns=_i64,
    exposed_ns=_i64,
    workers=_bool,  # whether the loader had worker processes, NULL when the span does not tell
)

# Process groups as the trace's header tells them; members is a JSON list of ranks.
GROUPS = _schema(capture_id=_i64, pg=_str, description=_str, role=_str, size=_i64, members=_str)

COLLECTIVES = _schema(
    capture_id=_i64,
    event_id=_i64,
    step=_i64,
    pg=_str,
    seq=_i64,
    op=_str,
    bytes=_i64,
    dtype=_str,
    group_size=_i64,
    start_ns=_i64,
    end_ns=_i64,
    wait_ns=_i64,
    transfer_ns=_i64,
    exposed_ns=_i64,
    algbw=_f64,
    busbw=_f64,
)

MEMORY = _schema(
    capture_id=_i64,
    device=_str,  # 'cpu', 'cuda:0', ...: host memory is a device of its own here
    t_ns=_i64,
    step=_i64,
    allocated=_i64,
    reserved=_i64,
    event=_str,
    size=_i64,
    address=_str,  # hexadecimal: an address can exceed int64
)

# What memory snapshots, memory timelines and the allocator's events of a trace tell, a row a device. Sizes in bytes.
MEMORY_PEAKS = _schema(
    capture_id=_i64,
    device=_str,
    events=_i64,
    start_ns=_i64,
    end_ns=_i64,
    peak=_i64,  # most bytes that were alive at once in the recording
    peak_ns=_i64,
    peak_step=_i64,
    before=_i64,  # alive when the recording began
    at_end=_i64,
    unmatched=_i64,  # events that contradict the others and were left out
    reserved=_i64,  # from here on: the allocator at the end; NULL where no segments are told
    peak_reserved=_i64,
    held=_i64,  # in blocks, rounded up as the allocator does
    told_held=_i64,  # the same as the segments' own totals tell it
    free=_i64,  # in free blocks of the shared pools
    largest_free=_i64,
    private_reserved=_i64,  # pools of CUDA graphs
    private_free=_i64,
    ooms=_i64,  # out-of-memory errors in the recording, the columns below tell of the last
    oom_ns=_i64,
    oom_asked=_i64,
    oom_device_free=_i64,
    oom_last=_bool,  # whether the allocator did nothing after it: then the pools are as it found them
)

# What was alive at the peak: sums to it exactly.
MEMORY_ALIVE = _schema(
    capture_id=_i64,
    device=_str,
    category=_str,  # parameter, gradient, optimizer, activation, input, temporary, detail, unknown
    phase=_str,  # setup, input, forward, backward, optimizer, before; NULL when not told
    place=_str,  # operator, or innermost frame outside of libraries
    stack=_str,  # innermost frame first, a line each
    module=_str,  # names of the modules around, the outermost first
    step=_i64,  # in which it was allocated
    blocks=_i64,
    bytes=_i64,
)
MEMORY_LEFT = MEMORY_ALIVE  # the same of the end of the recording

# Live bytes over time by category: of every stretch of time its highest moment.
MEMORY_LINES = _schema(capture_id=_i64, device=_str, t_ns=_i64, category=_str, bytes=_i64)

QUALITY = _schema(source=_str, capture_id=_i64, rule=_str, count=_i64, effect_ns=_i64, sentence=_str)

# What the always-on collector writes, a row a step. `rank` and `step` are the job's own.
TIMER = _schema(
    rank=_i64,
    session=_str,
    step=_i64,
    start_ns=_i64,
    end_ns=_i64,
    wait_start_ns=_i64,  # NULL when no instrumented loader was asked for a batch in the step
    wait_ns=_i64,
    batches=_i64,  # batches that reached the loop in the step
    allocated=_i64,  # accelerator bytes, NULL without one
    reserved=_i64,
    rss=_i64,  # resident bytes of the process
    overhead_ns=_i64,  # what the collector itself spent in the step
    profiled=_bool,  # whether a profiler window was open
)

# What the collector follows of torch's DataLoaders: a row a batch fetched, by whoever fetched it, and a row a batch that
# reached the loop (RUN/loader/<session>.fetches.<part>, .batches.<part>; `loader` and `pass` name a pass, `task` a batch of it).
LOADER_FETCHES = _schema(
    loader=_str,  # a set of workers: session and ordinal
    worker=_i64,  # NULL: the loop's own process
    **{"pass": _i64},  # over the loader, with the same workers
    task=_i64,
    fetch_start_ns=_i64,
    fetch_end_ns=_i64,
    samples=_i64,  # NULL when they were not timed one by one
    slowest_ns=_i64,
    slowest=_str,  # its index, NULL for an iterable dataset
    slowest_path=_str,  # its file, where the dataset lists them
    collate_ns=_i64,
    cpu_ns=_i64,  # of the fetching thread
    runq_ns=_i64,  # ready to run, but without a core
    read_chars=_i64,  # bytes read through system calls
    read_bytes=_i64,  # bytes read from storage
    major_faults=_i64,
    voluntary=_i64,  # context switches
    involuntary=_i64,
    pickle_ns=_i64,  # in the thread that sends it
    pickle_cpu_ns=_i64,
    sent_ns=_i64,  # pickled, and from now on on its way
    bytes=_i64,  # of the message; tensors travel beside it in shared memory
)
LOADER_BATCHES = _schema(
    loader=_str,
    **{"pass": _i64},
    delivered=_i64,  # ordinal of the batch in the pass
    ended=_i64,  # 1: no batch, but the request that found the loader exhausted
    workers=_i64,
    prefetch=_i64,
    in_order=_bool,
    persistent=_bool,
    worker=_i64,
    task=_i64,
    requested_ns=_i64,
    arrived_ns=_i64,  # its message began to be read
    loaded_ns=_i64,  # and was unpickled
    asked_ns=_i64,
    got_ns=_i64,
    step=_i64,  # ordinal in the session
    asked_cpu_ns=_i64,  # CPU time of the process so far
    asked_runq_ns=_i64,  # of the loop's thread so far
    got_cpu_ns=_i64,
    got_runq_ns=_i64,
)

# Memory as the collector reads it now and then, a row a reading. Bytes, NULL where the system does not tell.
HOST_MEMORY = _schema(
    rank=_i64,
    session=_str,
    step=_i64,  # the job's own, about to begin
    t_ns=_i64,
    rss=_i64,  # of the process
    pss=_i64,
    swap=_i64,
    workers=_i64,  # loader workers, count
    workers_rss=_i64,  # summed
    workers_pss=_i64,
    pinned=_i64,
    shm_used=_i64,  # of /dev/shm, whoever uses it
    shm_size=_i64,
    cgroup_used=_i64,  # without the file cache, which is dropped before anybody is killed
    cgroup_limit=_i64,
    available=_i64,  # of the machine, without swapping
    total=_i64,
)
DEVICE_MEMORY = _schema(
    rank=_i64,
    session=_str,
    step=_i64,
    t_ns=_i64,
    device=_str,
    allocated=_i64,
    reserved=_i64,
    active=_i64,  # allocated, and freed but still in use by a stream
    peak_allocated=_i64,  # since the process began, or the job reset it
    peak_reserved=_i64,
    retries=_i64,  # allocations that had to empty the cache first, count
    ooms=_i64,  # count
    free=_i64,  # on the device, whoever uses the rest
    total=_i64,
)

# One JSON object a collector session under RUN/sessions/rank=00003/<session>.json.
SESSION_KEYS = [
    "session",
    "rank",
    "world_size",
    "local_rank",
    "host",
    "pid",
    "backend",
    "devices",
    "device_name",
    "device_memory",
    "cores",
    "torch",
    "python",
    "command",
    "loaders",
    "states",  # bytes of parameters, buffers, gradients, optimizer state; whole_* of all shards; the largest unit
    "started_ns",
    "first_step",
    "clock_offset_ns",
]

CAPTURE_TABLES: dict[str, pa.Schema] = {
    "events": EVENTS,
    "steps": STEPS,
    "ledger": LEDGER,
    "approaches": APPROACHES,
    "groups": GROUPS,
    "exposed_comm": EXPOSED_COMM,
    "device_time": DEVICE_TIME,
    "kernels": KERNELS,
    "operators": OPERATORS,
    "batches": BATCHES,
    "collectives": COLLECTIVES,
    "memory": MEMORY,
    "memory_peaks": MEMORY_PEAKS,
    "memory_alive": MEMORY_ALIVE,
    "memory_left": MEMORY_LEFT,
    "memory_lines": MEMORY_LINES,
    "quality": QUALITY,
}
# What the collector writes: a file a session, JSON lines while it lives.
COLLECTED: dict[str, pa.Schema] = {"timer": TIMER, "host_memory": HOST_MEMORY, "device_memory": DEVICE_MEMORY}
TABLES: dict[str, pa.Schema] = {"sources": SOURCES, **COLLECTED, **CAPTURE_TABLES}
