"""The programs in bench/ that end, kill and cut: nothing is left, lost, or learnt wrong."""

import pytest

from tests.bench.programs import OF_FAULTS, check_report, figures_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", OF_FAULTS)
def test_a_program_checks_and_prints_its_figures(name: str) -> None:
    check_report(name)


def test_every_end_meets_every_kind_of_server() -> None:
    cells = [name for name in figures_of("kill_matrix") if name.endswith("_survivors_count")]
    assert len(cells) == 7 * 2
