"""Write the page: one HTML file that needs nothing else and asks the network for nothing.

Two things keep names from traces harmless: jinja2 escapes all text, and data reaches the script as JSON in
which ``<``, ``>`` and ``&`` are written as escapes; the script only ever sets ``textContent``.
"""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from .. import __version__
from ..analyze.run import Run
from ..ingest.errors import StepscopeError
from ..ingest.writer import replacing
from . import palette, units
from .blocks import Number
from .book import Answer, Book
from .headline import findings, headline, mean_ledger, subject
from .sections import sections

FINDINGS_FIRST = 3
_PAGE = b"<!doctype html"
_SCRIPTS = ("evidence.js", "tables.js", "stack.js", "timeline.js")


def write_report(run: Run, path: str | os.PathLike[str]) -> Path:
    """Write the HTML report of ``run`` to ``path`` and return the path. The same run gives the same bytes.

    Raises:
        StepscopeError: The file cannot be written.
    """
    path = Path(path)
    if not path.name:
        raise StepscopeError("The report needs a file name. Give one with -o.", exit_code=2)
    try:
        if not _replaceable(path):
            raise StepscopeError(f"{path} exists and is no report: it is left alone. Choose another name with -o.")
        page = render(run)
        with replacing(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
    except OSError as error:
        raise StepscopeError(
            f"Cannot write the report {path}: {error.strerror or error}. Choose another with -o."
        ) from error
    return path


def _replaceable(path: Path) -> bool:
    """Tell whether a page may be put there: not in the place of a trace, a run's own file or a device."""
    if not path.exists() or path.is_dir():  # a directory refuses by itself
        return True
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(_PAGE)).lower() in (b"", _PAGE)


def render(run: Run) -> str:
    """Return the page of ``run`` as text."""
    book = Book(run)
    found = [_finding(book, number, row) for number, row in enumerate(findings(run))]
    top = headline(book)
    parts = sections(book)
    return (
        _environment()
        .get_template("page.html")
        .render(
            run=units.printable(subject(run)),
            version=__version__,
            verdict=run.verdict(),
            coverage=units.printable(run.coverage()),
            context=_context(top.one),
            facts=_facts(top),
            means=mean_ledger(book),
            first=found[:FINDINGS_FIRST],
            others=found[FINDINGS_FIRST:],
            sections=parts,
            evidence=book.evidence,
            styles=Markup(_asset("report.css")),
            scripts=[Markup(_asset(name)) for name in _SCRIPTS],
            palette=palette,
        )
    )


def _finding(book: Book, number: int, row: dict[str, Any]) -> dict[str, Any]:
    """Return a finding with its evidence asked for, so that it can be shown."""
    show = None
    if row.get("evidence_sql"):
        show = book.ask_sql(f"finding-{number}", row["evidence_sql"], row["sentence"], "findings").id
    won = Number("won back per step", row["lost_ns_per_step"], "time", show)
    return {**row, "won": won if row["lost_ns_per_step"] else None, "show": show}


def _context(row: dict[str, Any]) -> list[str]:
    """Return what is known about the machines, for the line under the verdict."""
    hosts = None if row["hosts"] is None else f"{row['hosts']} host{'s' if row['hosts'] > 1 else ''}"
    began = None if row["start_ns"] is None else units.moment(row["start_ns"])
    return [units.text(fact) for fact in (row["device_name"], row["backend"], hosts, began) if fact]


def _facts(answer: Answer) -> list[Number]:
    """Return the numbers under the verdict."""
    row = answer.one
    judged, profiled = row["steps_judged"], row["steps_profiled"]
    timed = row["timed_steps"]
    return [
        Number("mean step", row["mean_step_ns"], "time", answer.id, unknown="not recorded"),
        Number("worst step", row["worst_step_ns"], "time", answer.id, unknown="not recorded"),
        Number("steps judged", judged, "count", answer.id, note=f"of {profiled:,} profiled"),
        Number("steps timed", timed, "count", answer.id, unknown="no timer"),
        Number(
            "ranks",
            row["ranks"],
            "count",
            answer.id,
            note=f"of {row['world_size']:,}" if row["world_size"] else "",
        ),
        Number("waiting for data, whole run", row["timed_wait"], "share", answer.id, unknown="not recorded"),
        Number("device busy", row["device_busy"], "share", answer.id, unknown="no device"),
    ]


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _environment() -> jinja2.Environment:
    env = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__, "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    env.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False, "ensure_ascii": False}
    env.filters |= {
        "duration": units.duration,
        "share": units.share,
        "confidence": units.confidence,
        "printable": units.text,
    }
    env.filters["exact"] = lambda value: units.exact(value, "ns")
    return env
