"""The programs in bench/ that no other file of tests runs; each checks its figures itself."""

import pytest

from tests.bench.programs import OTHERS, check_report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", OTHERS)
def test_a_program_checks_and_prints_its_figures(name: str) -> None:
    check_report(name)
