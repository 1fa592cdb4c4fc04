"""Every space file that ships loads, checks, and can be planned."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

import search_spaces
from infra.engines import ENGINES
from infra.machine import Interconnect, Machine
from infra.sglang.flags import NEWEST
from infra.sglang.joint_rules import broken_rules
from orchestrator.choices import HostChoice
from orchestrator.search.known import KnownHost, KnownRules
from orchestrator.space_file import load_sweep, prepare
from sweeps import Limit, Objective
from sweeps.config import Config
from sweeps.hosts import EngineName
from sweeps.sampling import valid_samples

FOLDER = Path(search_spaces.__file__).parent
FILES = sorted(p for p in FOLDER.glob("*.py") if "sweep = Sweep(" in p.read_text())


def test_the_founding_spaces_are_there() -> None:
    assert {"ngram", "eagle3", "nccl", "joint", "cpu_tiny"} <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_loads_checks_and_plans(path: Path) -> None:
    sweep = prepare(load_sweep(path), path, HostChoice(EngineName.EMULATED))
    assert sweep.name == path.stem
    assert sweep.space.plain().is_plain
    assert sweep.space.count().configs > sweep.budget.trials
    configs = {sweep.space.plain(), *islice(valid_samples(sweep.space, seed=1), 20)}
    assert len(configs) >= 20
    host = sweep.hosts[0]
    plans = {
        ENGINES[host.engine].plan(sweep.settings(config), host, 30000, sweep.budget.deadlines)
        for config in configs
    }
    assert len(plans) == len(configs)


def test_the_founding_space_spans_what_the_question_asks() -> None:
    sweep = load_sweep(FOLDER / "ngram.py")
    draft = sweep.space.axis("speculative_num_draft_tokens").grid
    breadth = sweep.space.axis("speculative_ngram_max_bfs_breadth").grid
    assert draft is not None
    assert breadth is not None
    assert (draft[0], draft[-1]) == (2, 32)
    assert (breadth[0], breadth[-1]) == (1, 16)
    assert sweep.fixed["tp_size"] == 8


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_draw_breaks_a_rule_of_sglang_or_holds_a_setting_of_another_branch(path: Path) -> None:
    sweep = load_sweep(path)
    machine = Machine(8, Interconnect.PCIE, (12, 0))
    for config in islice(valid_samples(sweep.space, seed=3), 200):
        assert sweep.space.strays(config) == []
        assert broken_rules(sweep.settings(config), NEWEST, machine) == []


@pytest.mark.parametrize("name", ["ngram", "joint"])
def test_a_guide_collapses_a_space_to_what_acts_differently(name: str) -> None:
    sweep = load_sweep(FOLDER / f"{name}.py")
    known = KnownRules(sweep, [KnownHost("h", NEWEST, Machine(8, Interconnect.PCIE, (12, 0)))])
    drawn = list(islice(valid_samples(sweep.space, seed=3), 300))
    kept = {known.canonical(config) for config in drawn}
    assert len(kept) < 0.8 * len(drawn)
    for config in kept:
        assert known.canonical(config) == config
        assert sweep.space.strays(config) == []
        assert sweep.space.broken_rules(config) == []
        assert config.get("disable_custom_all_reduce") is False
    whole = replace(sweep, keep_inert=True)
    assert all(KnownRules(whole, known.hosts).canonical(c) == c for c in drawn)


def test_prefill_keeps_its_knobs_where_the_goal_has_prefill_in_it() -> None:
    sweep = load_sweep(FOLDER / "joint.py")
    hosts = [KnownHost("h", NEWEST, Machine(8, Interconnect.PCIE, (12, 0)))]
    plain = dict(sweep.space.plain())
    config = Config.of({**plain, "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1", "NCCL_PROTO": "LL"})
    assert KnownRules(sweep, hosts).canonical(config)["NCCL_PROTO"] is None
    served = replace(sweep, objective=Objective(limits=[Limit("ttft_ms", most=100.0)]))
    assert KnownRules(served, hosts).canonical(config)["NCCL_PROTO"] == "LL"
