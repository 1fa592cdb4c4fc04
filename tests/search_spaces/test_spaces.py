"""Every space file that ships loads, checks, and can be planned."""

from itertools import islice
from pathlib import Path

import pytest

import search_spaces
from infra.engines import ENGINES
from orchestrator.choices import HostChoice
from orchestrator.space_file import load_sweep, prepare
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
