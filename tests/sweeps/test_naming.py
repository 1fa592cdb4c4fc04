"""Names of configurations: short, told apart within their sweep, and always the same."""

from itertools import islice
from pathlib import Path

import pytest

from orchestrator.space_file import load_sweep
from sweeps.config import Config
from sweeps.naming import label, shown_values
from sweeps.sampling import valid_samples
from sweeps.values import Value

SPACES = sorted(Path("search_spaces").glob("*.py"))
PLAIN: dict[str, Value] = {"speculative_algorithm": None, "NCCL_PROTO": None, "switch": False}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "plain"),
        ({"NCCL_PROTO": "LL"}, "plain · LL"),
        (
            {
                "speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 3,
                "speculative_ngram_max_bfs_breadth": 4, "NCCL_PROTO": "LL",
            },
            "ngram n3 b4 · LL",
        ),
        (
            {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 2, "switch": True},
            "eagle3 s2 · switch=on",
        ),
        ({"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}, "plain · ipc"),
        ({"NCCL_MIN_NCHANNELS": 8, "mem_fraction": 0.88}, "plain · ch≥8 mem_fraction=0.88"),
    ],
)  # fmt: skip
def test_what_plain_decode_has_not_is_named(settings: dict[str, Value], name: str) -> None:
    assert label(Config.of({**PLAIN, **settings}), PLAIN) == name


def test_a_value_that_plain_decode_has_is_named_where_it_is_unset() -> None:
    assert label(Config.of({"NCCL_PROTO": None}), {"NCCL_PROTO": "LL"}) == "plain · proto=unset"


def test_without_a_baseline_all_that_is_set_is_named() -> None:
    config = Config.of({"NCCL_PROTO": "LL", "NCCL_ALGO": None, "switch": False})
    assert label(config, {}) == "plain · LL"


@pytest.mark.parametrize(
    "space", [path for path in SPACES if "sweep = Sweep(" in path.read_text()], ids=lambda p: p.stem
)
def test_no_two_configurations_of_a_space_share_a_name(space: Path) -> None:
    sweep = load_sweep(space)
    plain = sweep.space.plain()
    configs = set(islice(valid_samples(sweep.space, seed=3), 300)) | {plain}
    assert len({label(config, plain) for config in configs}) == len(configs)
    assert label(plain, plain) == "plain"


def test_axes_that_a_configuration_lacks_are_shown_as_nothing() -> None:
    axes = {"speculative_num_draft_tokens": True, "speculative_ngram_match_type": False}
    assert dict(shown_values(Config.of({"speculative_algorithm": None}), axes)) == {
        "speculative_algorithm": "plain",
        "speculative_num_draft_tokens": 0,
        "speculative_ngram_match_type": "-",
    }
