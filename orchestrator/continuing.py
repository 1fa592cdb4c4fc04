"""Which sweep a command runs: a new one, or the last one of the same file, and on what terms."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from infra.redaction import Redactor
from infra.sglang.protocol import fitting_dialect
from orchestrator.dialect_choice import load_of
from orchestrator.refusals import bad_option
from orchestrator.state import State, new_sweep_id
from sweeps.definition import Change, Effect, changes, definition, fitting
from sweeps.problems import BadInputError, Problem
from sweeps.results import UNCOUNTED, TrialResult
from sweeps.sweep import Sweep

OVER = ("finished", "ended early")
"""How a sweep ends that is not continued unless somebody asks for it."""


class Wish(StrEnum):
    """What the command line asks for."""

    AUTO = ""
    """Continue the last sweep of the file if it did not come to its end."""
    RESUME = "--resume"
    CONTINUE = "--continue"
    """As RESUME, also with an edited file."""
    NEW = "--new"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The sweep that is run."""

    sweep_id: str
    said: tuple[str, ...] = ()
    """What the user is told before it begins."""
    aside: tuple[TrialResult, ...] = ()
    """Trials that stay on disk and no longer count."""
    edits: tuple[Change, ...] = ()


class EditedError(BadInputError):
    """The file is not the one that the sweep began with; the message is the difference."""

    can_continue = False
    """Whether what fits may be kept."""


def known_definition(sweep: Sweep) -> dict[str, object]:
    """Return the definition of a sweep as its card keeps it: secrets are masked."""
    masked = Redactor.from_environment().data(definition(sweep))
    assert isinstance(masked, dict), "as it was given"
    return masked


def choose(
    state: State,
    sweep: Sweep,
    space_file: Path,
    wish: Wish,
    fingerprints: Mapping[str, str],
) -> Chosen:
    """Find the sweep to run. Raises EditedError, and BadInputError where there is none to resume.

    The caller holds the folder's lock, and has closed what a killed driver left open.
    """
    last = None if wish is Wish.NEW else _last(state, sweep, space_file, wish)
    if last is None:
        return Chosen(new_sweep_id(sweep.name))
    ended = state.ended(last)
    edits = (*_edits(state, last, sweep), *_other_machines(ended, fingerprints))
    inside, outside = fitting(ended, sweep.space)
    told = _head(state, last, inside, sweep), *(f"edited {edit}" for edit in edits)
    barred = [edit for edit in edits if edit.effect is Effect.BREAKS]
    loud = [edit for edit in edits if not edit.is_quiet]
    if barred or (loud and wish is not Wish.CONTINUE):
        raise _edited(space_file, last, edits, bool(barred), (len(inside), len(outside)))
    if outside:
        told = (*told, f"aside  {_numbers(outside)}: outside the space as it is now")
    return Chosen(last, told, tuple(outside), tuple(loud))


def keeping_load(state: State, sweep: Sweep, space_file: Path, wish: Wish) -> Sweep:
    """Return a sweep with what the one to be resumed began with, where the file leaves it open.

    That is the dialect, unless the hosts have lost it, and how many prompts are measured: a sweep
    of a version without longer passes keeps to its number. Both are part of what was measured.
    """
    last = None if wish is Wish.NEW else _last(state, sweep, space_file, wish)
    before = _recorded_load(state, last) if last else {}
    work, dialect = sweep.workload, before.get("dialect")
    is_fixed = before and "most_measured_prompts" not in before
    if is_fixed and work.most_measured_prompts is None:
        work = replace(work, most_measured_prompts=work.measured_prompts)
    if isinstance(dialect, str) and dialect and work.leaves_dialect_open:
        kept = fitting_dialect(load_of(sweep), preferred=dialect)
        work = work.speaking(kept) if kept == dialect else work
    return replace(sweep, workload=work)


def _recorded_load(state: State, sweep_id: str) -> Mapping[str, object]:
    """Return the workload of a sweep as its card has it; empty where it has none."""
    definition = state.card(sweep_id).get("definition")
    workload = definition.get("workload") if isinstance(definition, dict) else None
    return workload if isinstance(workload, dict) else {}


def command_again(space_file: Path, wish: Wish) -> str:
    """Return the command that was typed, with another wish."""
    words = [word for word in sys.argv[1:] if word not in set(Wish)]
    typed = words if words[:1] == ["sweep"] else ["sweep", str(space_file)]
    return shlex.join(["python", "-m", "orchestrator", *typed, wish.value])


def _last(state: State, sweep: Sweep, space_file: Path, wish: Wish) -> str | None:
    """Find the newest sweep of a file; None where a new one is due."""
    for sweep_id in reversed(state.sweep_ids()):
        card = state.card(sweep_id)
        if card.get("name") != sweep.name:
            continue
        if wish is Wish.AUTO:
            same = Path(str(card.get("file"))).absolute() == space_file.absolute()
            return sweep_id if same and card.get("status") not in OVER else None
        return sweep_id
    if wish is Wish.AUTO:
        return None
    mend = f"Run it without {wish.value}."
    raise bad_option(wish.value, space_file.name, "it was never run here", mend)


def _edits(state: State, sweep_id: str, sweep: Sweep) -> tuple[Change, ...]:
    card = state.card(sweep_id)
    before = card.get("definition")
    if isinstance(before, dict):
        return changes(before, known_definition(sweep))
    if card.get("key") == sweep.key:
        return ()
    return (Change("file", "the file", str(card.get("key")), sweep.key, Effect.BREAKS),)


def _other_machines(
    results: Sequence[TrialResult], fingerprints: Mapping[str, str]
) -> list[Change]:
    """Name the hosts that are no longer what they were: other GPUs, driver or SGLang."""
    known = {r.host: r.fingerprint for r in results if r.fingerprint}
    return [
        Change("hosts", f"fingerprint of host {host}", before, now, Effect.BREAKS)
        for host, before in known.items()
        if (now := fingerprints.get(host, "")) and now != before
    ]


def _edited(
    space_file: Path, sweep_id: str, edits: Sequence[Change], barred: bool, split: tuple[int, int]
) -> EditedError:
    problems = [Problem(edit.what, edit.after, _meaning(edit), "") for edit in edits]
    inside, outside = split
    if barred:
        mend = f"A new sweep: `{command_again(space_file, Wish.NEW)}`. Or undo the edit."
        why = "what stands above makes new trials incomparable with those of this sweep"
    else:
        going_on, new = (command_again(space_file, wish) for wish in (Wish.CONTINUE, Wish.NEW))
        mend = f"Go on with what fits: `{going_on}`. A new sweep: `{new}`."
        why = f"of its trials {inside} fit the file as it is now, and {outside} do not"
    problems.append(Problem("sweep", sweep_id, why, mend))
    error = EditedError(f"{space_file}, edited since {sweep_id} began,", problems)
    error.can_continue = not barred
    return error


def _meaning(edit: Change) -> str:
    return f"it was {edit.before}; {edit.effect.value}"


def _head(state: State, sweep_id: str, inside: Sequence[TrialResult], sweep: Sweep) -> str:
    status = str(state.card(sweep_id).get("status"))
    word = {"running": "its driver was killed"}.get(status, f"it was {status}")
    done = sum(result.outcome not in UNCOUNTED for result in inside)
    return (
        f"Continuing {sweep_id}: {word}; {done} of {sweep.budget.trials} trials are done."
        " `--new` begins another one."
    )


def _numbers(results: Sequence[TrialResult]) -> str:
    listed = ", ".join(str(result.number) for result in results)
    return f"trial{'s' if len(results) > 1 else ''} {listed}"
