"""``stepscope whatif``: what a change of the data loader would give, with the prediction's own error."""

from __future__ import annotations

import click

from ..analyze.whatif import SWEEP, TRUSTED, Measured, Prediction, measure, predict
from ..reports.units import duration, share
from .opening import opened


@click.group(name="whatif")
def command() -> None:
    """Predict the step time of RUN under another configuration."""


@command.command()
@click.argument("run")
@click.option("--rank", type=int, help="Whose loader; the first that was followed by default.")
@click.option("--num-workers", type=click.IntRange(0, 256), help="Without any option, a table over 0…16 workers.")
@click.option("--prefetch-factor", type=click.IntRange(1, 256))
@click.option("--in-order", type=bool, help="Whether batches are delivered in order.")
@click.option("--cache-hit", type=click.FloatRange(0, 1), default=0.0, help="Share of samples that a cache serves.")
@click.option("--cache", type=click.Choice(["bytes", "samples"]), default="bytes", show_default=True)
@click.option("--storage-speed", type=click.FloatRange(0, min_open=True), default=1.0, help="Times as fast as it was.")
def loader(
    run: str,
    rank: int | None,
    num_workers: int | None,
    prefetch_factor: int | None,
    in_order: bool | None,
    cache_hit: float,
    cache: str,
    storage_speed: float,
) -> None:
    """Predict the step time of RUN with another data loader."""
    with opened([run]) as opened_run:
        measured = measure(opened_run, rank)
    _tell(measured)
    asked = any(one is not None for one in (num_workers, prefetch_factor, in_order))
    changed = asked or cache_hit or storage_speed != 1
    for workers in [num_workers] if changed else SWEEP:
        found = predict(
            measured,
            workers=workers,
            prefetch=prefetch_factor,
            in_order=in_order,
            cache_hit=cache_hit,
            cache="samples" if cache == "samples" else "bytes",
            storage_speed=storage_speed,
        )
        click.echo(_line(found, measured))


def _tell(measured: Measured) -> None:
    loader = measured.loader
    click.echo(
        f"rank {measured.rank}: recorded with num_workers={loader.workers}: {duration(measured.step_ns)} a step; "
        f"the model replays {duration(measured.replayed.step_ns)}, {measured.error:+.1%}"
    )
    if not measured.trusted:
        click.echo(f"The replay is off by more than {share(TRUSTED)}: do not trust the predictions below.")
    if loader.workers == 0:
        click.echo("Handing batches over between processes was not recorded: it is left out of what workers cost.")


def _line(found: Prediction, measured: Measured) -> str:
    order = "" if found.in_order else ", in_order=False"
    prefetch = f", prefetch_factor={found.prefetch}" if found.workers else ""
    change = found.step_ns / measured.step_ns - 1
    return (
        f"  num_workers={found.workers}{prefetch}{order}: {duration(found.step_ns)} ± {duration(found.error_ns)} "
        f"a step ({change:+.1%})"
    )
