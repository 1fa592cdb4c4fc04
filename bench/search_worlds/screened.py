"""What a screening of a world's all-reduces answers, with errors of its own, and what it costs."""

import math
import random

from infra.emulated.cost import all_reduce_us
from search_worlds.world import World, settings_of
from sweeps.config import Config
from sweeps.prediction.all_reduces import AllReduces
from sweeps.screening import STEP_TOKENS, Reduction, Screened, known_alike, next_setting
from sweeps.search.roles import serving_of

OWN_SIGMA, SIZE_SIGMA = 0.03, 0.01
"""Of each setting: an all-reduce alone is not quite one in a step; and of each of its sizes."""
SETTING_S, GPUS = 20.0, 8
"""For one setting: eight processes start and meet."""
MOST = 40


def screened(world: World, seed: int) -> AllReduces:
    """Screen as the command does, setting by setting."""
    done: list[Screened] = []
    while len(done) < MOST:
        setting = next_setting(world.space, done, emulated=True)
        if setting is None:
            break
        alike = known_alike(world.space, done, setting, world.canonical)
        done.append(alike or Screened(setting, _timed(world, setting, seed)))
    return AllReduces(tuple(done))


def gpu_hours(found: AllReduces) -> float:
    """Return what a screening takes; what acts alike is timed once."""
    timed = {one.reductions for one in found.screened}
    return len(timed) * SETTING_S * GPUS / 3600


def _timed(world: World, setting: Config, seed: int) -> tuple[Reduction, ...]:
    serving = world.canonical(Config.of({**world.space.plain(), **setting}))
    settings = settings_of(world.setting.space, None, serving_of(serving))
    luck = random.Random(f"screening {seed} {world.setting.name} {setting.variant}")
    own = luck.gauss(0, OWN_SIGMA)
    found = []
    for tokens in STEP_TOKENS:
        us = all_reduce_us(world.setting.truth, settings, tokens)
        us *= math.exp(own + luck.gauss(0, SIZE_SIGMA))
        found.append(Reduction(tokens, us, us, us, 1))
    return tuple(found)
