"""The bench of the search is held to the command: the same trials, with the same figures."""

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from orchestrator.choices import Driver, HostChoice
from orchestrator.state import State
from orchestrator.sweeping import run_sweep
from sweeps.hosts import EngineName
from sweeps.sampling import valid_samples
from sweeps.search.roles import drafting_of

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from search_worlds.hosts import Setting, main_settings  # noqa: E402 - found beside the programs
from search_worlds.product import How, sweep_world  # noqa: E402
from search_worlds.truth import World, known_to_the_emulator, noiseless  # noqa: E402

pytestmark = pytest.mark.slow
TRIALS = 7
SEED = 7
"""That of the space file."""


def setting_named(name: str) -> Setting:
    return next(setting for setting in main_settings() if setting.name == name)


def test_a_sweep_of_the_bench_is_that_of_the_command(tmp_path: Path) -> None:
    world = World(setting_named("M+ipc/ngram/code"))
    swept = sweep_world(world, SEED, How(), TRIALS)
    with known_to_the_emulator(world.setting, SEED) as name:
        run_sweep(
            ROOT / "search_spaces" / "ngram.py", tmp_path,
            HostChoice(EngineName.EMULATED, name), TRIALS, driver=Driver.SIMULATED,
        )  # fmt: skip
    state = State(tmp_path)
    typed = state.results(state.sweep_ids()[-1])
    assert [r.config for r in typed] == [r.config for r in swept.results]
    assert [r.outcome for r in typed] == [r.outcome for r in swept.results]
    for one, other in zip(typed, swept.results, strict=True):
        assert one.estimates == other.estimates


WEAK, STRONG = (0.2,), (0.7, 0.5, 0.4)
"""Hit rates of drafters that are not the emulator's own."""


@pytest.mark.parametrize(("prompts", "hit_rates"), [("code", STRONG), ("chat", WEAK)])
def test_the_truth_is_what_noiseless_trials_measure(
    prompts: str, hit_rates: tuple[float, ...]
) -> None:
    setting = replace(setting_named(f"M+ipc/joint/{prompts}"), hit_rates=hit_rates)
    quiet = replace(setting, truth=noiseless(setting.truth))
    world = World(quiet)
    swept = sweep_world(world, 0, How("random", stop_rule=None), 6)
    measured = [r for r in swept.results if "decode_tok_s" in r.estimates]
    assert len({drafting_of(r.config) for r in measured}) >= 3
    assert "EAGLE3" in {r.config.algorithm for r in measured}
    for result in measured:
        truth = world.tok_s(result.config)
        assert result.estimates["decode_tok_s"].value == pytest.approx(truth, rel=0.005)
        steps = 1 / world.cycle_s(result.config)
        assert result.estimates["steps_per_s"].value == pytest.approx(steps, rel=0.005)


def test_no_draw_is_faster_than_the_best() -> None:
    world = World(setting_named("M+ipc/joint/code"))
    best, config = world.best
    assert world.tok_s(config) == pytest.approx(best)
    for drawn in islice(valid_samples(world.space, 0), 40):
        assert world.tok_s(drawn) <= best * 1.003
