"""What random faults do to sweeps on the emulated host: nothing, or it is counted here.

A signal (SIGKILL, SIGTERM, or SIGSTOP for up to two seconds) hits the driver, the trial actor, a
guard, a server, the MLflow server or a process of Ray's head at a random instant, over many small
sweeps; a third of all faults hit trial actors. Between these the disk of the state folder is full
(which takes root), the wall clock jumps by up to a day (which takes a C compiler), servers answer
what cannot be, or a stranger's process fills a GPU. A sweep whose driver died is taken up by the
same command until it has ended, and told to an MLflow server that was away at the end, or whose
events found no room on the disk, by `rebuild`. Then its spools, its study and MLflow's store are
compared. Power cuts are copies of the state folder at random instants, each of which is taken up
again. What was thrown and what was found goes to the error output as a table.

`--quick` throws few faults, without the MLflow server and its outage. Otherwise each sweep that is
over is kept in bench/out until the code changes, so that a run that was cut off goes on.
"""

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import faulting
import infra
import orchestrator
import sweeps
from faulting.audit import Findings
from faulting.outage import Outage, outage
from faulting.place import Place
from faulting.power_cuts import power_cuts
from faulting.rounds import Round, under_fire
from faulting.strikes import SIGNALS, TROUBLE, TROUBLES, Strike, Target
from faulting.tracker import TrackerServer
from faulting.troubles import clock_library
from infra.code_digest import code_digest
from reporting.program import Figures, run_counted
from search_worlds.kept import OUT, keep
from sweeps.values import digest

KILLS, QUICK_KILLS = 500, 6
CUTS_SHARE = 0.4
"""Power cuts for each kill: 200 for 500."""
QUICK_CUTS = 1


@dataclass(frozen=True, slots=True)
class Fire:
    """How dense the faults fall."""

    kills_a_sweep: int
    trials: int
    calm_s: float
    """Mean wall seconds between two faults."""


FIRE, QUICK_FIRE = Fire(15, 6, 0.6), Fire(15, 4, 0.4)
TRACKER_EVERY = 3
"""Rounds of which one has an MLflow server that may be hit."""
SAMPLERS = ("factorised", "random")
"""Sweeps take turns: what the first may do again, and what the second has time for."""
SEED = 20_261_130

SERIAL = (Target.DRIVER, Target.GUARD, Target.SERVER)
RAY = (*SERIAL, Target.HEAD)
ALL_ACTORS_SHARE, ACTORS_SHARE = 1 / 3, 2 / 3
"""Of all faults, and of those of a round under Ray, which comes where the first is not reached."""
TROUBLES_SHARE = 0.25
"""Of the faults of another round."""


def measure(quick: bool, kills: int) -> Figures:
    """Throw the faults and return the counts, all of which should be 0."""
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if quick:
            rounds = _rounds(Ground(folder, None), kills, QUICK_FIRE)
            cuts = _cuts(folder, QUICK_CUTS, QUICK_FIRE, None)
            return _figures(rounds, cuts, QUICK_CUTS)
        kept = OUT / f"faults-{_key(kills)}"
        tracker = TrackerServer(folder / "tracker")
        try:
            tracker.wait_ready()
            seen = _outage(folder, tracker, kept / "outage.json")
            rounds = _rounds(Ground(folder, kept, tracker), kills, FIRE)
            count = round(CUTS_SHARE * kills)
            cuts = _cuts(folder, count, FIRE, kept)
        finally:
            tracker.end()
    return {
        **_figures(rounds, cuts + seen.findings, count),
        "outage_trial_ratio": seen.struck_trial_s / seen.calm_trial_s,
        "outage_tracker_differences_count": seen.findings.tracker_differences,
    }


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the rounds happen."""

    folder: Path
    kept: Path | None
    """Where those that are over are kept."""
    tracker: TrackerServer | None = None


def _key(kills: int) -> str:
    """Return the name of a run: other code, other rounds."""
    code = code_digest(infra, orchestrator, sweeps, faulting)
    return digest([code, kills, SEED, asdict(FIRE), sys.version_info[:2]])


def _read(path: Path | None) -> Any:
    return json.loads(path.read_text()) if path is not None and path.is_file() else None


def _rounds(ground: Ground, kills: int, fire: Fire) -> list[Round]:
    rounds: list[Round] = []
    clock = clock_library(ground.folder)
    while (left := kills - sum(len(one.strikes) for one in rounds)) > 0:
        number = len(rounds)
        path = ground.kept / f"round-{number}.json" if ground.kept else None
        data = _read(path)
        driver = "ray" if _actors(rounds) < ALL_ACTORS_SHARE * (kills - left) else "serial"
        done = Round.from_data(data) if data else _round(ground, number, left, fire, driver, clock)
        if path is not None and data is None:
            keep(path, done.as_data())
        rounds.append(done)
        thrown = sum(len(one.strikes) for one in rounds)
        word = "kept, " if data else ""
        told = f"{word}{done.starts} starts, {done.findings.counts}"
        print(f"{thrown}/{kills} faults, {told}", file=sys.stderr, flush=True)
    return rounds


def _actors(rounds: Sequence[Round]) -> int:
    return sum(one.target is Target.ACTOR for done in rounds for one in done.strikes)


def _round(
    ground: Ground, number: int, left: int, fire: Fire, driver: str, clock: Path | None
) -> Round:
    luck = random.Random(f"{SEED} {number}")
    tracker = ground.tracker if number % TRACKER_EVERY == 0 else None
    place = Place(
        ground.folder / f"sweep-{number}", fire.trials, driver,
        tracking_uri=tracker.uri if tracker else "", sampler=SAMPLERS[number // 2 % 2],
        clock=clock, own_disk=True,
    )  # fmt: skip
    plan = _plan(min(left, fire.kills_a_sweep), place, tracker is not None, luck)
    return under_fire(place, plan, fire.calm_s, luck, tracker)


def _plan(kills: int, place: Place, with_tracker: bool, luck: random.Random) -> list[Target]:
    """Draw who is hit in a round, in which order."""
    troubles = [one for one in TROUBLES if _is_possible(one, place)]
    if place.driver == "ray":
        actors = round(ACTORS_SHARE * kills)
        others: tuple[Target, ...] = (*RAY, *troubles[:1])
        plan = [Target.ACTOR] * actors + [luck.choice(others) for _ in range(kills - actors)]
    else:
        count = min(kills, max(len(troubles), round(TROUBLES_SHARE * kills)))
        others = (*SERIAL, *([Target.TRACKER] if with_tracker else []))
        plan = [troubles[n % len(troubles)] for n in range(count)]
        plan += [luck.choice(others) for _ in range(kills - count)]
    luck.shuffle(plan)
    return plan


def _is_possible(trouble: Target, place: Place) -> bool:
    match trouble:
        case Target.CLOCK:
            return place.clock is not None
        case Target.DISK:
            return place.own_disk
        case _:
            return True


def _outage(folder: Path, tracker: TrackerServer, path: Path) -> Outage:
    data = _read(path)
    if data:
        found = {**data["findings"], "complaints": tuple(data["findings"]["complaints"])}
        return Outage(**{**data, "findings": Findings(**found)})
    seen = outage(folder / "outage", tracker)
    keep(path, asdict(seen))
    return seen


def _cuts(folder: Path, count: int, fire: Fire, kept: Path | None) -> Findings:
    found, number = Findings(), 0
    while number < count:
        these = min(fire.kills_a_sweep, count - number)
        path = kept / f"cut-{number}.json" if kept else None
        data = _read(path)
        if data:
            cut = Findings(**{**data, "complaints": tuple(data["complaints"])})
        else:
            luck = random.Random(f"{SEED} cut {number}")
            cut = power_cuts(Place(folder / f"cut-{number}", fire.trials), these, luck)
            if path is not None:
                keep(path, asdict(cut))
        found += cut
        number += these
        print(f"{number}/{count} power cuts", file=sys.stderr, flush=True)
    return found


def _figures(rounds: Sequence[Round], cuts: Findings, cut_count: int) -> Figures:
    strikes = [strike for one in rounds for strike in one.strikes]
    found = sum((one.findings for one in rounds), Findings())
    Console(stderr=True).print(_table(strikes))
    for complaint in (*found.complaints, *cuts.complaints):
        print(complaint, file=sys.stderr)
    return {
        "faults_count": len(strikes),
        "actor_faults_count": _actors(rounds),
        "troubles_count": sum(one.target in TROUBLES for one in strikes),
        "sweeps_count": len(rounds),
        "starts_count": sum(one.starts for one in rounds),
        "rebuilds_count": sum(one.rebuilt for one in rounds),
        "known_measurements_count": sum(one.known for one in rounds),
        **{f"{name}_count": value for name, value in found.counts.items()},
        "power_cuts_count": cut_count,
        **{f"power_cut_{name}_count": value for name, value in cuts.counts.items()},
    }


def _table(strikes: Sequence[Strike]) -> Table:
    counts = Counter((strike.target, strike.how) for strike in strikes)
    ways = [*(number.name for number in SIGNALS), TROUBLE]
    table = Table("hit", *ways, title="faults thrown")
    for target in Target:
        table.add_row(target, *(str(counts[target, way] or "") for way in ways))
    return table


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    clean = {f"no {name} is found": figures[f"{name}_count"] == 0
             and figures[f"power_cut_{name}_count"] == 0 for name in Findings().counts}  # fmt: skip
    return {
        **clean,
        "faults were thrown": figures["faults_count"] >= 1 <= figures["power_cuts_count"],
        "something was measured that could be lost": figures["known_measurements_count"] >= 1,
        "a third of the faults hit trial actors": figures["actor_faults_count"]
        >= ALL_ACTORS_SHARE * (figures["faults_count"] - 2 * FIRE.kills_a_sweep),
        "the host had troubles": figures["troubles_count"] >= 1,
    }


if __name__ == "__main__":
    run_counted(__doc__ or "", measure, "--kills", (KILLS, QUICK_KILLS), holds)
