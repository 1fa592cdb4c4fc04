"""Every case names tests, and they are there."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.cases import CASES

ROOT = Path(__file__).parents[1]
KNOWN = [f"O-{number:02d}" for number in range(1, 67)]


@cache
def _defined(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("case", CASES)
def test_the_tests_of_a_case_are_there(case: str) -> None:
    assert CASES[case]
    for test in CASES[case]:
        file, _, name = test.partition("::")
        assert name in _defined(file), test


def test_no_case_is_missing() -> None:
    assert [case for case in KNOWN if case not in CASES] == []
