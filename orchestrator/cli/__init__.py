"""The command line: parse, call, print.

Exit codes: 0 done, 2 bad input, 3 no trial, 4 a host is not ready, 5 figures differ, 6 undecided,
130 cut.
"""

import typer

from orchestrator.cli.hosts import hosts
from orchestrator.cli.predicting import predict
from orchestrator.cli.proving import compare, verify
from orchestrator.cli.remote import attach, fetch, stop
from orchestrator.cli.replaying import replay
from orchestrator.cli.reviewing import explain, export, report, trials, ui
from orchestrator.cli.running import check, plan, screen, sweep
from orchestrator.cli.tending import clean, emulate, rebuild
from orchestrator.cli.watching import status, watch

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help and errors: the framed ones cost half of the start
    help="Sweeps of speculative decoding and communication settings for SGLang.",
)

FOREIGN_FLAGS = {"allow_extra_args": True, "ignore_unknown_options": True}

_COMMANDS = (
    sweep, check, plan, screen, replay, trials, explain, report, export, verify, compare, ui,
    status, watch, attach, stop, fetch, rebuild, clean,
)  # fmt: skip

for _command in _COMMANDS:
    app.command()(_command)
app.command()(predict)
app.command(context_settings=FOREIGN_FLAGS)(emulate)
app.add_typer(hosts, name="hosts")
