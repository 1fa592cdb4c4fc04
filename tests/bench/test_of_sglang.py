"""The programs in bench/ that hold something against the real SGLang on a CPU."""

import pytest

from tests.bench.programs import OF_SGLANG, check_report, figures_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", OF_SGLANG)
def test_a_program_checks_and_prints_its_figures(name: str) -> None:
    check_report(name)


def test_the_real_server_was_started_and_its_trie_was_timed() -> None:
    assert figures_of("exhaustive")["sweep_starts_count"] >= 1
    assert figures_of("replay")["code_bfs_sglang_trie_steps_per_s"] > 0
