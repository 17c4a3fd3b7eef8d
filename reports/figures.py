"""Still pictures: matplotlib SVG that takes colours and font from the page, and so suits light and dark.

Figures are drawn with the light tones; ``_svg`` then writes the page's CSS variables in their place. matplotlib
is loaded by the first figure: a page without one is written in half the time.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .palette import OF_MEMORY, TONES, variable
from .units import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _QUIET, _RULE = "#010203", "#717273", "#d1d2d3"
_INKS = {_INK: "var(--ink)", _QUIET: "var(--quiet)", _RULE: "var(--rule)"}
_WIDTH = 10.4  # inches, as the margins around the axes
_LEFT, _RIGHT, _BELOW, _ABOVE = 0.55, 0.1, 0.4, 0.26
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be searched and takes the page's font
    "svg.hashsalt": "stepscope",  # the same run gives the same bytes
    "font.size": 7.4,
    "text.color": _QUIET,
    "axes.labelcolor": _QUIET,
    "axes.edgecolor": _RULE,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.xmargin": 0.01,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": _RULE,
    "grid.linewidth": 0.5,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
}

MOST_KINDS = 5  # of collectives in one picture: more colours are not told apart

Rows = list[dict[str, Any]]


def step_times(rows: Rows) -> str:
    """Return step times and loader waits over a run, as SVG (rows of ``timer_series``)."""

    def draw(axes: Axes) -> None:
        steps = [row["step"] for row in rows]
        axes.fill_between(
            steps,
            _ms(rows, "fastest_ns"),
            _ms(rows, "slowest_ns"),
            color=TONES["compute"].light,
            alpha=0.22,
            lw=0,
        )
        axes.plot(steps, _ms(rows, "median_ns"), color=TONES["compute"].light, lw=1.3, label="step")
        if any(row["wait_ns"] is not None for row in rows):
            waits = _ms(rows, "wait_ns")
            red = TONES["data_wait"].light
            axes.fill_between(steps, waits, _ms(rows, "worst_wait_ns"), color=red, alpha=0.25, lw=0)
            axes.plot(steps, waits, color=red, lw=1.1, label="wait for the loader")
        axes.set_ylim(bottom=0)
        opened = [row["step"] for row in rows if row["profiled"]]
        if opened:
            (marks,) = axes.plot(opened, [1] * len(opened), "|", color=_INK, ms=5, label="profiler window")
            marks.set(transform=axes.get_xaxis_transform(), clip_on=False)
        axes.set_xlabel("step")
        axes.set_ylabel("ms")
        axes.legend(loc="lower left", ncols=3, labelcolor=_QUIET, borderaxespad=0, bbox_to_anchor=(0, 1.02))

    return _svg(draw)


def loader_lanes(rows: Rows) -> str:
    """Return a lane a worker with its fetches, and one with the loop's waits, as SVG (rows of ``loading_stretch``)."""

    def draw(axes: Axes) -> None:
        zero = min(min(row["fetch_start_ns"], row["asked_ns"]) for row in rows)
        workers = sorted({row["worker"] for row in rows if row["worker"] is not None})
        lanes = {worker: at for at, worker in enumerate(reversed(workers), 1)} or {None: 1}
        for row in rows:
            if row["worker"] not in lanes:  # not clear whose it is
                continue
            begin, end = (row["fetch_start_ns"] - zero) / 1e6, (row["fetch_end_ns"] - zero) / 1e6
            axes.broken_barh(
                [(begin, end - begin)], (lanes[row["worker"]] - 0.36, 0.72), color=TONES["compute"].light, ec="none"
            )
            axes.text(begin, lanes[row["worker"]], f" {row['delivered']}", va="center", color=_INK, clip_on=True)
        waits = [((row["asked_ns"] - zero) / 1e6, (row["got_ns"] - row["asked_ns"]) / 1e6) for row in rows]
        axes.broken_barh(waits, (-0.36, 0.72), color=TONES["data_wait"].light, ec="none")
        names = {at: "the loop itself" if worker is None else f"worker {worker}" for worker, at in lanes.items()}
        axes.set_axisbelow(True)
        axes.set_yticks([0, *names], labels=["loop", *names.values()])
        axes.set_xlabel("ms")

    return _svg(draw)


def memory(rows: Rows, over: str) -> str:
    """Return bytes over ``at_ns`` or ``step``, as SVG (rows of ``memory_series``, ``memory_timer``, ``memory_host_series``)."""
    colours = {
        "reserved": _QUIET,
        "allocated": TONES["compute"].light,
        "rss": TONES["host"].light,
        "process": TONES["host"].light,
        "workers": TONES["data_wait"].light,
        "shared": TONES["allocator"].light,
        "container": _QUIET,
    }
    names = {"rss": "resident (process)", "shared": "/dev/shm"}

    def draw(axes: Axes) -> None:
        peak = max((row.get(key) or 0 for row in rows for key in colours), default=0)
        scale, unit = next(((s, u) for s, u in ((2**30, "GiB"), (2**20, "MiB")) if peak >= s), (2**10, "KiB"))
        x = [row[over] / 1e6 if over == "at_ns" else row[over] for row in rows]
        for key, colour in colours.items():
            told = [(at, row[key] / scale) for at, row in zip(x, rows, strict=True) if row.get(key) is not None]
            if told:  # what is read now and then is a line from reading to reading, a single reading a point
                at, line = [at for at, _ in told], [value for _, value in told]
                mark, label = "" if len(told) > 1 else ".", names.get(key, key)
                axes.step(at, line, where="post", color=colour, lw=1.2, marker=mark, label=label)
        axes.set_ylim(0, 1.08 * peak / scale or 1)
        axes.set_xlabel("ms since the first point" if over == "at_ns" else "step")
        axes.set_ylabel(unit)
        axes.legend(loc="lower left", ncols=3, labelcolor=_QUIET, borderaxespad=0, bbox_to_anchor=(0, 1.02))

    return _svg(draw)


def heat(rows: Rows, x: str, y: str, value: str, labels: tuple[str, str]) -> str:
    """Return a heat map of times, as SVG: the fuller the colour the longer, blank where there is no row."""

    def draw(axes: Axes) -> None:
        import numpy as np
        from matplotlib.colors import to_rgb

        across, down = ({name: i for i, name in enumerate(sorted({row[key] for row in rows}))} for key in (x, y))
        most = max(row[value] for row in rows) or 1
        picture = np.zeros((len(down), len(across), 4))
        picture[..., :3] = to_rgb(TONES["comm_wait"].light)
        for row in rows:
            picture[down[row[y]], across[row[x]], 3] = 0.06 + 0.94 * row[value] / most
        axes.imshow(picture, aspect="auto", interpolation="none")
        axes.grid(False)
        for axis, names in ((axes.xaxis, across), (axes.yaxis, down)):
            shown = list(names.items())[:: max(1, -(-len(names) // 16))]
            axis.set_ticks([place for _, place in shown], [str(name) for name, _ in shown])
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        axes.set_title(f"full colour: {duration(most)}", loc="left", fontsize=7.4, color=_QUIET)

    return _svg(draw, height=1.2 + min(3.0, 0.16 * len({row[y] for row in rows})))


def arrivals(rows: Rows) -> str:
    """Return one collective rank by rank, as SVG: from its arrival a bar of waiting, then one of transfer."""

    def draw(axes: Axes) -> None:
        places = range(len(rows))
        start, wait, transfer = (_ms(rows, key) for key in ("after_ns", "wait_ns", "transfer_ns"))
        axes.barh(places, wait, left=start, color=TONES["comm_wait"].light, label="waits")
        begun = [a + b for a, b in zip(start, wait, strict=True)]
        axes.barh(places, transfer, left=begun, color=TONES["comm_transfer"].light, label="transfer")
        axes.set_yticks(places, [str(row["rank"]) for row in rows])
        axes.invert_yaxis()
        axes.set_xlabel("ms after the first arrival")
        axes.set_ylabel("rank")
        axes.legend(loc="lower left", ncols=2, labelcolor=_QUIET, borderaxespad=0, bbox_to_anchor=(0, 1.02))

    return _svg(draw, height=1.2 + min(4.0, 0.16 * len(rows)))


def bandwidth(rows: Rows) -> str:
    """Return bandwidth against size, as SVG: a mark a size, a line the fit, of what is called most (rows of ``link_points``)."""

    def draw(axes: Axes) -> None:
        calls: Counter[tuple[str, str]] = Counter()
        for row in rows:
            calls[row["op"] or "", row["pg"] or ""] += row["calls"]
        tones = [TONES[name].light for name in ("comm_transfer", "compute", "data_wait", "exposed_copy", "comm_wait")]
        for (kind, _), colour, mark in zip(calls.most_common(MOST_KINDS), tones, "osv^D", strict=False):
            mine = [row for row in rows if (row["op"] or "", row["pg"] or "") == kind]
            sizes = [row["bytes"] for row in mine]
            label = " ".join(filter(None, (kind[0], kind[1] and f"group {kind[1]}")))
            axes.plot(sizes, [row["bandwidth"] / 1e6 for row in mine], mark, color=colour, ms=4, label=label)
            if all(row["fitted"] is not None for row in mine):
                axes.plot(sizes, [row["fitted"] / 1e6 for row in mine], color=colour, lw=1)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("bytes")
        axes.set_ylabel("MB/s")
        axes.legend(loc="lower left", ncols=MOST_KINDS, labelcolor=_QUIET, borderaxespad=0, bbox_to_anchor=(0, 1.02))

    return _svg(draw)


def memory_stack(rows: Rows) -> str:
    """Return live bytes over time by category, stacked, as SVG (rows of ``memory_stack``)."""

    def draw(axes: Axes) -> None:
        at = sorted({row["at_ns"] for row in rows})
        told = {(row["at_ns"], row["category"]): row["bytes"] for row in rows}
        names = [name for name in OF_MEMORY if any(row["category"] == name for row in rows)]
        peak = max(sum(told.get((t, name), 0) for name in names) for t in at)
        scale, unit = next(((s, u) for s, u in ((2**30, "GiB"), (2**20, "MiB")) if peak >= s), (2**10, "KiB"))
        lines = [[told.get((t, name), 0) / scale for t in at] for name in names]
        colours = [TONES[OF_MEMORY[name]].light for name in names]
        axes.stackplot([t / 1e6 for t in at], lines, labels=names, colors=colours, step="post", lw=0)
        axes.set_ylim(0, 1.08 * peak / scale or 1)
        axes.set_xlabel("ms since the first point")
        axes.set_ylabel(unit)
        axes.legend(loc="lower left", ncols=8, labelcolor=_QUIET, borderaxespad=0, bbox_to_anchor=(0, 1.02))

    return _svg(draw)


def _ms(rows: Rows, key: str) -> list[float]:
    return [float("nan") if row[key] is None else row[key] / 1e6 for row in rows]


def _svg(draw: Callable[[Axes], None], height: float = 2.3) -> str:
    """Draw on one set of axes and return the SVG with the page's colours."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height))
        draw(figure.subplots())
        figure.subplots_adjust(  # fixed: a layout that measures its texts draws everything twice
            left=_LEFT / _WIDTH, right=1 - _RIGHT / _WIDTH, bottom=_BELOW / height, top=1 - _ABOVE / height
        )
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    _, _, inner = text.getvalue().partition("<svg")
    head, _, body = inner.partition(">")
    head = re.sub(r' (width|height)="[^"]*"', "", head)  # the page says how wide; viewBox keeps the proportions
    svg = f'<svg role="img"{head}>{re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)}'
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # the ids repeat from figure to figure
    svg = re.sub(r"font: ([0-9.]+px)[^;\"]*", r"font-size: \1", svg)
    for colour, name in {**{t.light: variable(c) for c, t in reversed(TONES.items())}, **_INKS}.items():
        svg = svg.replace(colour, name)
    return svg
