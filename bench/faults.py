"""What random faults do to sweeps on the emulated host: nothing, or it is counted here.

A signal (SIGKILL, SIGTERM, or SIGSTOP for up to two seconds) hits the driver, the trial actor, a
guard, a server, the MLflow server or a process of Ray's head at a random instant, over many small
sweeps; a sweep whose driver died is taken up by the same command until it has ended, and told to an
MLflow server that was away at the end by `rebuild`. Then its spools, its study and MLflow's store
are compared. Power cuts are copies of the state folder at random instants, each of which is taken
up again. `--quick` throws few faults, without the MLflow server and its outage. What was thrown and
what was found goes to the error output as a table.
"""

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from faulting.audit import Findings
from faulting.outage import outage
from faulting.place import Place
from faulting.power_cuts import power_cuts
from faulting.rounds import Round, under_fire
from faulting.strikes import SIGNALS, Strike, Target
from faulting.tracker import TrackerServer
from reporting.program import Figures, run_counted

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
RAY_EVERY, TRACKER_EVERY = 4, 3
"""Which rounds run under Ray, and which have an MLflow server that may be hit."""
SAMPLERS = ("factorised", "random")
"""Sweeps take turns: what the first may do again, and what the second has time for."""
SEED = 20_261_130

SERIAL = (Target.DRIVER, Target.GUARD, Target.SERVER)
RAY = (*SERIAL, Target.ACTOR, Target.HEAD)


def measure(quick: bool, kills: int) -> Figures:
    """Throw the faults and return the counts, all of which should be 0."""
    luck = random.Random(SEED)
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if quick:
            rounds = _rounds(folder, kills, luck, QUICK_FIRE)
            cuts = _cuts(folder, QUICK_CUTS, luck, QUICK_FIRE)
            return _figures(rounds, cuts, QUICK_CUTS)
        tracker = TrackerServer(folder / "tracker")
        try:
            tracker.wait_ready()
            seen = outage(folder / "outage", tracker)
            rounds = _rounds(folder, kills, luck, FIRE, tracker)
            count = round(CUTS_SHARE * kills)
            cuts = _cuts(folder, count, luck, FIRE)
        finally:
            tracker.end()
    return {
        **_figures(rounds, cuts + seen.findings, count),
        "outage_trial_ratio": seen.struck_trial_s / seen.calm_trial_s,
        "outage_tracker_differences_count": seen.findings.tracker_differences,
    }


def _rounds(
    folder: Path,
    kills: int,
    luck: random.Random,
    fire: Fire,
    tracker: TrackerServer | None = None,
) -> list[Round]:
    rounds: list[Round] = []
    while (left := kills - sum(len(one.strikes) for one in rounds)) > 0:
        number = len(rounds)
        under_ray = number % RAY_EVERY == RAY_EVERY - 1
        with_server = tracker if tracker and number % TRACKER_EVERY == 0 else None
        place = Place(
            folder / f"sweep-{number}", fire.trials, "ray" if under_ray else "serial",
            tracking_uri=with_server.uri if with_server else "", sampler=SAMPLERS[number % 2],
        )  # fmt: skip
        targets = (*(RAY if under_ray else SERIAL), *([Target.TRACKER] if with_server else []))
        these = min(left, fire.kills_a_sweep)
        done = under_fire(place, targets, these, fire.calm_s, luck, with_server)
        rounds.append(done)
        thrown = sum(len(one.strikes) for one in rounds)
        print(f"{thrown}/{kills} faults, {done.starts} starts", file=sys.stderr, flush=True)
    return rounds


def _cuts(folder: Path, count: int, luck: random.Random, fire: Fire) -> Findings:
    found, number = Findings(), 0
    while number < count:
        place = Place(folder / f"cut-{number}", fire.trials)
        these = min(fire.kills_a_sweep, count - number)
        found += power_cuts(place, these, luck)
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
        "sweeps_count": len(rounds),
        "starts_count": sum(one.starts for one in rounds),
        "rebuilds_count": sum(one.rebuilt for one in rounds),
        "known_measurements_count": sum(one.known for one in rounds),
        **{f"{name}_count": value for name, value in found.counts.items()},
        "power_cuts_count": cut_count,
        **{f"power_cut_{name}_count": value for name, value in cuts.counts.items()},
    }


def _table(strikes: Sequence[Strike]) -> Table:
    counts = Counter((strike.target, strike.signal) for strike in strikes)
    table = Table("hit", *(number.name for number in SIGNALS), title="faults thrown")
    for target in Target:
        table.add_row(target, *(str(counts[target, number]) for number in SIGNALS))
    return table


def holds(figures: Figures) -> dict[str, bool]:
    """Return what must be true of the figures."""
    clean = {f"no {name} is found": figures[f"{name}_count"] == 0
             and figures[f"power_cut_{name}_count"] == 0 for name in Findings().counts}  # fmt: skip
    return {
        **clean,
        "faults were thrown": figures["faults_count"] >= 1 <= figures["power_cuts_count"],
        "something was measured that could be lost": figures["known_measurements_count"] >= 1,
    }


if __name__ == "__main__":
    run_counted(__doc__ or "", measure, "--kills", (KILLS, QUICK_KILLS), holds)
