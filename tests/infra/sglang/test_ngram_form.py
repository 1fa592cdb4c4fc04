"""N-gram settings are read as each version of SGLang reads them, as by the emulated server."""

import pytest

from infra.emulated.drafting.drafter import NODE_LIMIT, ngram_shape
from infra.emulated.settings import make_settings
from infra.sglang.flags import spelled
from infra.sglang.ngram_form import ngram_form
from sweeps.drafting.ngram import MatchWindow, NgramShape
from sweeps.values import Value

SETTINGS: tuple[dict[str, Value], ...] = (
    {},
    {"speculative_num_draft_tokens": 8, "speculative_ngram_max_bfs_breadth": 4},
    {"speculative_ngram_match_type": "PROB", "ngram_match_depth": 7},
    {"disable_overlap_schedule": True, "speculative_ngram_min_bfs_breadth": 2},
)


@pytest.mark.parametrize("version", ["0.5.3", "0.5.9", "0.5.10", "0.5.13", "0.5.14", "0.5.23"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_the_shape_is_the_emulated_server_s(version: str, settings: dict[str, Value]) -> None:
    given = {spelled(name, version): value for name, value in settings.items()}
    served = make_settings(
        {"model_path": "m", "speculative_algorithm": "NGRAM", **given}, {}, version
    )
    capacity = {"speculative_ngram_capacity": NODE_LIMIT}
    shape = ngram_form(version, capacity).shape(settings)
    assert shape is not None
    drafted = ngram_shape(served)
    if shape.inserts_behind:
        assert shape == drafted
    else:  # whether steps overlap is of no account where tokens enter at once
        assert shape.overlap is False
        assert (shape.window, shape.depth) == (drafted.window, drafted.depth)


def test_what_a_sweep_fixes_holds_where_a_configuration_says_nothing() -> None:
    form = ngram_form("0.5.23", {"ngram_match_depth": 5, "speculative_num_draft_tokens": 3})
    assert form.shape({}) == NgramShape(3, 5)
    assert form.shape({"speculative_ngram_max_trie_depth": 9}) == NgramShape(3, 9)
    assert ngram_form("0.5.23", {"device": "cpu"}).shape({}) == NgramShape(12, overlap=False)


def test_what_sglang_refuses_has_no_shape() -> None:
    old, new = (ngram_form(version, {}) for version in ("0.5.9", "0.5.23"))
    assert old.shape({"ngram_match_depth": 18}) is None, "the window must be below the depth"
    assert old.shape({"ngram_match_depth": 17}) == NgramShape(
        17, window=MatchWindow(1, 17), inserts_behind=False, overlap=False
    )
    assert new.shape({"ngram_match_depth": 1}) is None
    assert new.shape({"speculative_ngram_min_bfs_breadth": 11}) is None
    assert new.shape({"speculative_num_draft_tokens": 0}) is None
