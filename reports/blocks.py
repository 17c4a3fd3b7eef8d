"""What a section can show: a few blocks, set by ``templates/blocks.html``. A section never writes HTML.

Values reach the blocks as they came out of the run; how they read is decided here, through ``units.FORMATS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from . import units

Row = dict[str, Any]

ROWS_PRINTED = 256  # of any table: a page of a thousand ranks stays a page


@dataclass(frozen=True)
class Number:
    """One figure that opens its definition, SQL and rows when it is clicked."""

    label: str
    value: Any
    form: str  # a key of units.FORMATS
    show: str | None  # the evidence it rests on, an id of Book.ask
    note: str = ""
    unknown: str = units.UNKNOWN  # what is said, and ideally why, when the value is NULL

    @property
    def text(self) -> str:
        """The value as it is read."""
        return self.unknown if self.value is None else units.FORMATS[self.form][0](self.value)

    @property
    def title(self) -> str:
        """The exact value."""
        return units.exact(self.value, units.FORMATS[self.form][1])


@dataclass(frozen=True)
class Facts:
    """A strip of numbers."""

    kind: ClassVar[str] = "facts"
    numbers: Sequence[Number]


@dataclass(frozen=True)
class Column:
    """A column of a table: the key in the rows, its heading, its format and a word for NULL.

    The format is a key of ``units.FORMATS``; ``name`` is for text of any length out of a trace, ``prose`` for
    sentences, ``show`` for the id of evidence on the row.
    """

    key: str
    heading: str
    form: str = "text"
    unknown: str = units.UNKNOWN
    bar: bool = False  # draw the value as a bar behind it, relative to the column's largest

    @property
    def numeric(self) -> bool:
        """Whether it is set flush right and sorts by value."""
        return self.form not in ("text", "name", "prose", "show")


@dataclass(frozen=True)
class Cell:
    """A value of a table, ready to print, with what it sorts by and its exact form."""

    text: str
    sort: Any
    title: str
    column: Column
    bar: float = 0.0


@dataclass(frozen=True)
class Table:
    """Rows under sortable headings; with ``find`` also a field that filters them."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    show: str | None = None
    find: bool = False
    known: int | None = None  # how many rows there are when the question was limited
    folded: bool = False

    @property
    def total(self) -> int:
        """How many rows there are, printed or not."""
        return len(self.rows) if self.known is None else self.known

    def cells(self) -> list[list[Cell]]:
        """Return the cells of the rows that are printed."""
        rows = self.rows[:ROWS_PRINTED]
        peaks = {c.key: max((abs(r[c.key] or 0) for r in rows), default=0) for c in self.columns if c.bar}
        return [[_cell(column, row[column.key], peaks.get(column.key, 0)) for column in self.columns] for row in rows]


def _cell(column: Column, value: Any, peak: float) -> Cell:
    reads, unit = units.FORMATS[column.form]
    printed = column.unknown if value is None else reads(value)
    title = units.exact(value, unit)
    if column.form == "name" and len(printed) > 120:
        printed, title = printed[:120] + "…", units.clip(printed, 4000)
    sort = "" if value is None else value if column.numeric else units.printable(str(value).lower())[:80]
    return Cell(printed, sort, title, column, round(100 * (value or 0) / peak, 1) if column.bar and peak else 0.0)


@dataclass(frozen=True)
class Figure:
    """A still picture: SVG made by ``figures.py`` (our own text, escaped by matplotlib)."""

    kind: ClassVar[str] = "figure"
    svg: str
    caption: str
    show: str | None = None


@dataclass(frozen=True)
class Chart:
    """A picture drawn in the page by ``assets/<script>.js`` from ``data``; ``alt`` says what it shows."""

    kind: ClassVar[str] = "chart"
    script: str
    data: Any
    caption: str
    alt: str
    show: str | None = None


@dataclass(frozen=True)
class Legend:
    """The ledger's categories with their colours, mean times and shares."""

    kind: ClassVar[str] = "legend"
    rows: Sequence[Row]  # category, mean_ns, share
    show: str


@dataclass(frozen=True)
class Note:
    """A sentence; its tone is ``quiet``, ``unknown`` (something was not recorded) or ``bad`` (it is wrong)."""

    kind: ClassVar[str] = "note"
    text: str
    tone: str = "quiet"


@dataclass(frozen=True)
class Terms:
    """Definitions: (term, meaning, link)."""

    kind: ClassVar[str] = "terms"
    entries: Sequence[tuple[str, str, str]]


Block = Facts | Table | Figure | Chart | Legend | Note | Terms


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    id: str
    title: str
    lead: str  # one sentence under the title: what the section answers
    blocks: list[Block] = field(default_factory=list)
