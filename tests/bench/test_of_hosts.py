"""The programs in bench/ whose hosts are network namespaces."""

import pytest

from tests.bench.programs import OF_HOSTS, check_report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", OF_HOSTS)
def test_a_program_checks_and_prints_its_figures(name: str) -> None:
    check_report(name)
