"""The part of data loading that follows batches: workers, their lanes, slow samples, and what another loader would give."""

from __future__ import annotations

from ...analyze.whatif import TRUSTED, measure, sweep
from ...ingest.errors import StepscopeError
from .. import figures
from ..blocks import Block, Column, Figure, Note, Table
from ..book import Book
from ..units import duration, share

_MEANING = (
    "Batches of torch DataLoaders, each timed by the worker that fetched it. Of a fetch, CPU was work, core was waiting "
    "for a core, blocked was waiting for anything else: storage, a lock, the network, sleep."
)
_EDGES = (
    "A pass begins with the making of the loader's iterator, in which workers start, and ends with a request that finds "
    "nothing more. Neither is part of the steady wait."
)
_STRETCH = 40  # batches in the picture


def blocks(book: Book) -> list[Block]:
    """Return what following the batches told; nothing when no loader was followed."""
    workers = book.ask("loading_workers", _MEANING, "lineage")
    if not workers.rows:
        return []
    return [_workers(workers.rows, workers.id), *_lanes(book), *_slowest(book), *_passes(book), *_whatif(book)]


def _workers(rows: list[dict], show: str) -> Table:
    return Table(
        "What the workers spend their time on",
        [
            Column("rank", "rank", "count"),
            Column("worker", "worker", "count", unknown="the loop itself"),
            Column("batches", "batches", "count"),
            Column("mean_fetch_ns", "mean fetch", "time", bar=True),
            Column("worst_fetch_ns", "worst fetch", "time"),
            Column("cpu", "CPU", "share"),
            Column("core", "core", "share"),
            Column("blocked", "blocked", "share"),
            Column("read_bytes", "from storage", "size"),
            Column("behind_ns", "waited for while later ones were ready", "time", unknown="does not apply"),
        ],
        rows,
        show,
    )


def _lanes(book: Book) -> list[Block]:
    answer = book.ask("loading_stretch", _MEANING, "lineage", limit_batches=_STRETCH)
    if not answer.rows:
        return []
    caption = f"{len(answer.rows)} batches of rank {answer.rows[0]['rank']}: each worker's fetches, and under them the loop's waits"
    return [Figure(figures.loader_lanes(answer.rows), caption, answer.id)]


def _slowest(book: Book) -> list[Block]:
    answer = book.ask("loading_slowest", _MEANING, "lineage")
    if not answer.rows:
        return []
    return [
        Table(
            "The samples that took longest",
            [
                Column("rank", "rank", "count"),
                Column("slowest", "index", "name"),
                Column("slowest_ns", "time", "time", bar=True),
                Column("usual_ns", "slowest of a usual batch", "time"),
                Column("worker", "worker", "count", unknown="the loop itself"),
                Column("step", "step", "count"),
                Column("seen", "slowest in batches", "count"),
            ],
            answer.rows,
            answer.id,
            folded=True,
        )
    ]


def _passes(book: Book) -> list[Block]:
    answer = book.ask("loading_passes", _EDGES, "lineage")
    said = {True: "yes", False: "no"}
    rows = [{**row, "persistent": said[row["persistent"]]} for row in answer.rows]
    return [
        Table(
            "Where passes begin and end",
            [
                Column("rank", "rank", "count"),
                Column("workers", "num_workers", "count"),
                Column("persistent", "workers stay"),
                Column("passes", "passes", "count"),
                Column("batches", "batches", "count"),
                Column("first_ns", "start-up", "time"),
                Column("later_ns", "of later passes, mean", "time", unknown="none"),
                Column("end_ns", "end, mean", "time", unknown="not reached"),
            ],
            rows,
            answer.id,
            folded=True,
        )
    ]


def _whatif(book: Book) -> list[Block]:
    try:
        measured = measure(book.run)
    except StepscopeError as error:
        return [Note(f"What another loader would give cannot be told: {error}", "unknown")]
    rows = [
        {
            "workers": one.workers,
            "step_ns": one.step_ns,
            "error_ns": one.error_ns,
            "change": one.step_ns / measured.step_ns - 1,
        }
        for one in sweep(measured)
    ]
    told = (
        f"The model replays the recorded loader of rank {measured.rank} (num_workers={measured.loader.workers}) in "
        f"{duration(measured.replayed.step_ns)} a step instead of {duration(measured.step_ns)}: {measured.error:+.1%}."
    )
    if not measured.trusted:
        told += f" That is off by more than {share(TRUSTED)}: the predictions are not to be trusted."
    if measured.loader.workers == 0:
        told += " What handing batches over between processes costs was not recorded and is left out."
    columns = [
        Column("workers", "num_workers", "count"),
        Column("step_ns", "predicted step", "time", bar=True),
        Column("error_ns", "±", "time"),
        Column("change", "against the recorded one", "share"),
    ]
    return [
        Table("What another number of workers would give", columns, rows),
        Note(told, "quiet" if measured.trusted else "bad"),
    ]
