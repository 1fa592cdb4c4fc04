"""Coverage is added up by package."""

from tests.packages_covered import Covered, by_package, table


def _file(ran: int, statements: int) -> dict[str, dict[str, int]]:
    return {"summary": {"covered_lines": ran, "num_statements": statements}}


def test_files_are_added_up_by_their_folder() -> None:
    files = {"b/c/y.py": _file(1, 4), "a/x.py": _file(1, 1), "b/c/x.py": _file(2, 4)}
    found = by_package({**files, "b/__init__.py": _file(0, 0)})
    assert found == {"a": Covered(1, 1), "b": Covered(), "b.c": Covered(3, 8)}
    assert [line.split() for line in table(found).splitlines()] == [
        ["a", "100.0", "%", "1", "of", "1"],
        ["b", "100.0", "%", "0", "of", "0"],
        ["b.c", "37.5", "%", "3", "of", "8"],
        ["all", "44.4", "%", "4", "of", "9"],
    ]
