"""What a sweep of the product was worth, by the truth of its world."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from search_worlds.hosts import DRAWN
from search_worlds.product import Held, Swept
from search_worlds.truth import World
from sweeps.config import Config
from sweeps.results import Outcome, TrialResult
from sweeps.search.claims import Verdict
from sweeps.search.steps import Purpose

NEAR = math.log(1.02)
"""A configuration is good within 2 % of the best."""
INDIFFERENT = math.log(1.01)
"""Within 1 % nobody cares which of two is recommended: neither answer is wrong."""
Z_90 = 1.645


@dataclass(frozen=True, slots=True)
class Score:
    """One sweep. Rates are compared as logarithms."""

    world: str
    strategy: str
    seed: int
    margin: float
    """The best speculation over the best plain decode; minus infinity without any."""
    hold_gpu_hours: float
    """Until what was held is good and stays so; infinite: never."""
    gpu_hours: float
    starts: int
    regret: float
    """The best rate over that of the recommendation."""
    plain_named: bool
    decided: bool
    wrong: bool
    """Decided, and the truth says otherwise by more than the zone that was tested."""
    gain_error: float | None
    gain_covered: bool | None
    gain_half_width: float | None
    confirms: int
    good_trials: int
    """Early stopping may end them: trials of good configurations."""
    good_stopped: int
    promised: dict[str, float]
    """Lift that starts promised, summed up by purpose."""
    realised: dict[str, float]
    """By how much they moved the true rate of what was held."""
    steps_held: tuple[int, int]
    """90 % intervals of step rates that held the measured one, and how many there were."""
    rates_held: tuple[int, int]
    """90 % intervals of tok/s that held the truth, and how many there were."""
    cpu_s: float

    @property
    def is_drawn(self) -> bool:
        """Tell whether the host was drawn at random."""
        return self.world.startswith(DRAWN)

    @property
    def near(self) -> bool:
        """Tell whether the recommendation is good."""
        return self.regret <= NEAR


def score(world: World, strategy: str, seed: int, swept: Swept) -> Score:
    """Judge a sweep."""
    world.prepare(result.config for result in swept.results)
    best = math.log(world.best[0])

    def regret(config: Config | None) -> float:
        return math.inf if config is None else best - math.log(world.tok_s(config))

    speculation, claim = world.best_speculation, swept.claim
    regrets = [regret(held.config) for held in swept.held]
    truth = _true_gain(world, swept)
    gain = claim.gain if claim else None
    judged = [r for r in swept.results if _may_be_stopped(r) and regret(r.config) <= NEAR]
    promised, realised = _lifts(swept, regrets)
    return Score(
        world.setting.name, strategy, seed,
        math.log(speculation[0] / world.best_plain[0]) if speculation else -math.inf,
        _hold(swept.held, regrets), swept.held[-1].gpu_hours, len(swept.results),
        regret(swept.recommended), swept.recommended.is_plain,
        bool(claim and claim.settled), _is_wrong(world, swept),
        None if gain is None or truth is None else gain.ratio / truth - 1,
        None if gain is None or truth is None else gain.low <= truth <= gain.high,
        None if gain is None else (gain.high - gain.low) / 2 / gain.ratio,
        sum(r.purpose == Purpose.CONFIRM for r in swept.results),
        len(judged), sum(r.outcome is Outcome.STOPPED for r in judged),
        promised, realised, _steps_held(swept), _rates_held(world, swept), swept.cpu_s,
    )  # fmt: skip


def _may_be_stopped(result: TrialResult) -> bool:
    return result.purpose not in (Purpose.BASELINE, Purpose.CONFIRM)


def _hold(held: Sequence[Held], regrets: Sequence[float]) -> float:
    far = [place for place, regret in enumerate(regrets) if regret > NEAR]
    first = far[-1] + 1 if far else 0
    return held[first].gpu_hours if first < len(held) else math.inf


def _true_gain(world: World, swept: Swept) -> float | None:
    gain = swept.claim.gain if swept.claim else None
    if gain is None:
        return None
    return world.tok_s(swept.recommended) / world.tok_s(gain.over)


def _is_wrong(world: World, swept: Swept) -> bool:
    """Tell whether a decided answer says what is not so: a gain that is none, or plain decode as
    good as the rest where something is faster by more than the zone."""
    claim = swept.claim
    if claim is None or not claim.settled:
        return False
    truth = _true_gain(world, swept)
    if claim.verdict is Verdict.GAIN and truth is not None:
        return math.log(truth) < -INDIFFERENT
    if claim.rejected is not None:
        over = world.tok_s(claim.rejected.config) / world.tok_s(swept.recommended)
        return math.log(over) > math.log1p(claim.zone)
    return False


def _lifts(swept: Swept, regrets: Sequence[float]) -> tuple[dict[str, float], dict[str, float]]:
    promised: dict[str, float] = {}
    realised: dict[str, float] = {}
    for place, result in enumerate(swept.results):
        lift = swept.promised.get(result.number)
        if lift is None or not place or math.isinf(regrets[place - 1]):
            continue
        name = result.purpose
        promised[name] = promised.get(name, 0.0) + lift
        realised[name] = realised.get(name, 0.0) + regrets[place - 1] - regrets[place]
    return promised, realised


def _steps_held(swept: Swept) -> tuple[int, int]:
    told = []
    for result in swept.results:
        foreseen, cycle = swept.predicted.get(result.number), result.estimates.get("cycle_ms")
        if foreseen is not None and cycle is not None:
            mean, spread = foreseen.cycle_ms
            told.append(abs(math.log(cycle.value) - mean) <= Z_90 * spread)
    return sum(told), len(told)


def _rates_held(world: World, swept: Swept) -> tuple[int, int]:
    told = []
    for result in swept.results:
        foreseen = swept.predicted.get(result.number)
        if foreseen is not None:
            mean, spread = foreseen.tok_s
            told.append(abs(math.log(world.tok_s(result.config)) - mean) <= Z_90 * spread)
    return sum(told), len(told)
