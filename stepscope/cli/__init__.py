"""The command line: one file a verb, loaded only when it is called."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import Any

import click

from .. import __version__
from ..ingest.errors import StepscopeError

VERBS = {
    "run": "Profile an unchanged training script.",
    "ingest": "Turn trace files into a run.",
    "analyze": "Print the verdict and the findings of a run or of traces.",
    "report": "Write the HTML report of a run or of traces.",
    "whatif": "Predict what another data loader would give.",
    "sql": "Ask a run a question in DuckDB SQL.",
    "hang": "Say which ranks hang a job, from its flight-recorder dumps.",
    "diff-memory": "Say what a memory peak has more of than another.",
    "demo": "Train two ranks with a planted fault, profile them and report.",
}


class _Verbs(click.Group):
    """Loads a verb's module when it is called, so that --help stays instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f".{cmd_name.replace('-', '_')}", __package__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stepscope")
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Where did the step time go, and what would give it back?"""
    # A terminal or pipe whose encoding lacks a character gets a question mark. A script's own output is its own.
    if context.invoked_subcommand != "run" and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def main(argv: list[str] | None = None) -> Any:
    """Run the command line and exit with 0 (done), 1 (nothing usable) or 2 (usage error)."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        sys.exit(cli.main(arguments, prog_name="stepscope", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        sys.exit(130)
    except StepscopeError as error:
        if "--debug" in arguments:
            raise
        click.echo(f"stepscope: {error}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        if "--debug" in arguments:
            raise
        click.echo(f"stepscope: {error}. The answer is not complete; see to that and try again.", err=True)
        sys.exit(1)
