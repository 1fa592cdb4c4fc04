"""Prints what the tests cover of each package, from the JSON that `coverage` writes.

`python -m tests.packages_covered FILE`. Only lines that ran in the processes of the tests count:
what they start, and what is compiled, is not seen.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any


@dataclass(frozen=True, slots=True)
class Covered:
    """How many statements of some files ran, of how many."""

    ran: int = 0
    statements: int = 0

    def __add__(self, other: "Covered") -> "Covered":
        """Return the sum of two."""
        return Covered(self.ran + other.ran, self.statements + other.statements)

    def __str__(self) -> str:
        """Return the share and the numbers, as columns."""
        share = 100 * self.ran / self.statements if self.statements else 100.0
        return f"{share:5.1f} % {self.ran:6} of {self.statements:6}"


def by_package(files: Mapping[str, Mapping[str, Any]]) -> dict[str, Covered]:
    """Add files up by their folders, which are in order."""
    found: dict[str, Covered] = {}
    for path, told in sorted(files.items()):
        summary = told["summary"]
        package = ".".join(PurePosixPath(path).parent.parts)
        one = Covered(summary["covered_lines"], summary["num_statements"])
        found[package] = found.get(package, Covered()) + one
    return dict(sorted(found.items()))


def table(packages: Mapping[str, Covered]) -> str:
    """Return a line for each package, and one for all."""
    rows = {**packages, "all": sum(packages.values(), Covered())}
    width = max(map(len, rows))
    return "\n".join(f"{name:{width}}  {covered}" for name, covered in rows.items())


if __name__ == "__main__":
    data = json.loads(Path(sys.argv[1]).read_text())
    sys.stdout.write(f"{table(by_package(data['files']))}\n")
