"""What the commands print for people."""

import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.continuing import Wish, command_again
from orchestrator.dialect_choice import dialect_notes
from sweeps.alike import said_alike
from sweeps.axes import conditions, is_environment
from sweeps.config import Config
from sweeps.crossover import Load, loads, stops_paying_at
from sweeps.effects import without_effect
from sweeps.explaining import Explanation
from sweeps.json_lines import shown
from sweeps.launch import LaunchPlan
from sweeps.ledger import Ledger
from sweeps.metrics import known_metric
from sweeps.naming import short
from sweeps.pareto import Point, front
from sweeps.phrases import counted
from sweeps.reporting.answer import Answer
from sweeps.results import TrialResult
from sweeps.space import values_text
from sweeps.speculation import speculation_beside_plain
from sweeps.sweep import Sweep
from sweeps.values import show

if TYPE_CHECKING:
    from rich.table import Table

    from orchestrator.sweep_run import SweepRun

_READABLE_COLUMNS = 100
_LISTED = 12


def print_space(sweep: Sweep) -> None:
    """Show the axes, rules, fixed settings and size of a sweep."""
    table = _table(f"{sweep.name}: {sweep.model.path}")
    table.add_column("axis", no_wrap=True)
    for name in ("kind", "values", "exists when"):
        table.add_column(name)
    for axis in sweep.axes:
        when = [f"{n} is {' or '.join(map(show, v))}" for n, v in conditions(axis).items()]
        kind = "environment" if is_environment(axis.name) else "flag"
        table.add_row(axis.name, kind, values_text(axis), " and ".join(when) or "always")
    _show(table)
    for rule in sweep.rules:
        _say(f"rule   {rule.must}: {rule.message}")
    for name, value in sweep.fixed.items():
        _say(f"fixed  {name} = {show(value)}")
    _say(f"load   {sweep.workload}; through {sweep.workload.dialect}; key {sweep.workload.key}")
    for note in dialect_notes(sweep):
        _say(f"note   {note}")
    if unsent := sweep.workload.unsent:
        _say(f"       not sent from its file: {_listed([shown(name) for name in unsent])}")
    for host in sweep.hosts:
        word = "EMULATED " if host.emulated else ""
        _say(f"host   {host.name}: {word}{host.engine.value}, {host.gpus} GPUs")
    _say(f"{sweep.space.count()} configurations, {sweep.budget.trials} trials; key {sweep.key}")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join([*names[:_LISTED], *([f"{more} more"] if more > 0 else [])])


def print_plans(made: Sequence[tuple[Config, LaunchPlan]]) -> None:
    """Show each configuration with its environment and command."""
    for config, plan in made:
        _say(f"# {config}")
        words = [f"{name}={shlex.quote(value)}" for name, value in plan.env]
        _say(" ".join([*words, shlex.join(plan.argv)]))
        for neutral, flag in plan.renamed:
            _say(f"# {neutral} became {flag}")
        for name, reference in plan.secrets:
            _say(f"# {name} comes from {reference}, and stands in no command line")
        _say("")


def print_trials(rows: Sequence[dict[str, object]]) -> None:
    """Show a table of trials for each sweep."""
    for sweep_id, group in groupby(rows, key=lambda row: row["sweep"]):
        trials = list(group)
        word = "EMULATED " if any(row["emulated"] for row in trials) else ""
        table = _table(f"{word}sweep {sweep_id}")
        for name in ("trial", "outcome", "tok/s", "95 % interval", "accept length"):
            table.add_column(name, no_wrap=True)
        table.add_column("configuration", overflow="fold")
        for row in trials:
            table.add_row(*_trial_cells(row))
        _show(table)


def _trial_cells(row: dict[str, object]) -> list[str]:
    low, high, config = row["decode_tok_s_low"], row["decode_tok_s_high"], row["config"]
    interval = f"{_number(low)} to {_number(high)}" if low is not None else ""
    return [
        str(row["number"]),
        f"{row['outcome']}, aside" if row.get("aside") else str(row["outcome"]),
        _number(row["decode_tok_s"]),
        interval,
        _number(row["accept_length"], 2),
        short(Config.of(config)) if isinstance(config, dict) else "",
    ]


def print_summary(
    sweep_id: str,
    state_dir: Path,
    status: str,
    answer: Answer | None,
    run: "SweepRun",
    space_file: Path,
) -> None:
    """Say how a sweep ended, what won, where the hours went, and what to type next."""
    results, goal = run.results, run.sweep.objective
    outcomes = [result.outcome for result in results]
    counts = ", ".join(f"{outcomes.count(o)} {o.value}" for o in dict.fromkeys(outcomes))
    word = "EMULATED " if any(result.emulated for result in results) else ""
    _say(f"{word}sweep {sweep_id} {status}: {counts or 'no trial'}")
    if run.health.trouble:
        _say(f"why    {run.health.trouble}")
    if answer is not None:
        _say_answer(answer, known_metric(goal.metric).unit, results)
    _say_loads(loads(results, run.sweep.workload))
    if goal.also:
        _say_front(front(results, goal.directions), goal.directions)
    for closed in run.health.closed:
        _say(f"closed {closed}")
    for line in run.health.no_room:
        _say(f"memory {line}")
    for hook, count in run.hooks.faults.items():
        _say(f"fault  {hook} failed {count} times; driver.log has the first")
    for host, why in run.health.quarantined.items():
        dirty = host in run.health.dirty
        mend = "; `python -m orchestrator clean` removes what is left" if dirty else ""
        _say(f"{'dirty' if dirty else 'aside'}  host {host}: {why}{mend}")
    inert = [f"inert  {effect}" for effect in without_effect(results)]
    for line in [*inert, *(f"alike  {names}" for names in said_alike(results))]:
        _say(line)
    _say_ledger(run.ledger())
    folder = "" if state_dir == Path(".sweeps") else f" --state-dir {state_dir}"
    if status == "interrupted":
        _say(f"next   {command_again(space_file, Wish.RESUME)}")
    _say(f"next   python -m orchestrator trials --sweep {sweep_id}{folder}")
    _say(f"       python -m orchestrator report{folder}")
    _say(f"       python -m orchestrator ui{folder}")
    allow = " --allow-emulated" if word else ""
    _say(f"       python -m orchestrator export --sweep {sweep_id}{folder}{allow}")


def _say_answer(answer: Answer, unit: str, results: Sequence[TrialResult]) -> None:
    """State what is recommended, what it gains, and how sure that is."""
    best, others = answer.standing, len(answer.ties)
    ties = f"; {counted(others, 'other')} within the indifference" if others else ""
    starts = counted(best.starts, "start")
    _say(f"best   {short(best.config)}")
    _say(f"       {best.value:.1f} {unit}{_range(best.low, best.high)}, {starts}{ties}")
    if best.config.is_plain and (said := speculation_beside_plain(results)):
        _say(f"       {said}")
    for gain in answer.gains:
        is_baseline = gain == answer.over_baseline
        what = "a server with nothing changed" if is_baseline else "the best plain decode"
        _say(f"       {gain}, {what}; {gain.how}")
    for lead, words in zip(["claim", *[""] * len(answer.sure)], answer.sure, strict=False):
        _say(f"{lead:6} {words}")


def _say_loads(table: Sequence[Load]) -> None:
    """Show the winner at each concurrency, if several were measured."""
    if len(table) < 2:
        return
    for load in table:
        _say(
            f"load   {load.concurrency:>3} at a time: {load.verdict}; speculation {load.gain:.2f} x"
            f" plain decode ({load.speculative.value:.1f} against {load.plain.value:.1f} tok/s):"
            f" {short(load.speculative.config)}{load.remark}"
        )
    if (crossing := stops_paying_at(table)) is not None:
        _say(f"       speculation stops paying at {crossing} at a time")


def _say_front(points: Sequence[Point], directions: Mapping[str, bool]) -> None:
    for point in points:
        values = zip(directions, point.values, strict=True)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in values)
        _say(f"front  {shown}: {short(point.config)}")


def _say_ledger(book: Ledger) -> None:
    if not book.total:
        return
    parts = ", ".join(f"{name} {hours:.2f}" for name, hours in book.spent.items())
    _say(f"hours  {book.total:.2f} {book.unit}: {parts}")
    if book.saved:
        saved = ", ".join(f"{name} {hours:.2f}" for name, hours in book.saved.items())
        _say(f"       saved, by estimate: {saved}")


def print_explanation(explanation: Explanation) -> None:
    """Show what a trial says, section by section, in lines that can be read."""
    from rich.text import Text

    from orchestrator.plain_console import plain_console

    console = plain_console(highlight=False, soft_wrap=True)
    width = min(console.width, _READABLE_COLUMNS)
    console.print(Text(_filled(explanation.headline, width), style="bold"))
    for section in explanation.sections:
        console.print(Text(f"\n{section.title}", style="bold"))
        for paragraph in section.paragraphs:
            console.print(Text(_filled(paragraph, width, "  - ")))


def _filled(text: str, width: int, bullet: str = "") -> str:
    """Break a paragraph into lines, but never before a percent sign."""
    glued = text.replace(" %", "\u00a0%")
    lines = textwrap.fill(
        glued, width, initial_indent=bullet, subsequent_indent=" " * len(bullet),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return lines.replace("\u00a0%", " %")


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" (95 % interval {low:.1f} to {high:.1f})"


def _number(value: object, digits: int = 1) -> str:
    return f"{value:.{digits}f}" if isinstance(value, int | float) else ""


def _say(line: str) -> None:
    """Print a line as it is: a terminal may wrap it, and a command in it can be copied."""
    sys.stdout.write(f"{line}\n")


def _table(title: str) -> "Table":
    from rich.table import Table  # slow to import, and most pages have no table

    return Table(title=title, title_justify="left")


def _show(table: "Table") -> None:
    from orchestrator.plain_console import plain_console

    plain_console(soft_wrap=True).print(table)
