"""Every point of the review of neighbours has its attacks."""

import re
from pathlib import Path

_MARK = re.compile(r"@attack\(\s*\"((?:\d+(?:, \d+)*|Low)): (\S[^\"]*)\"", re.MULTILINE)
POINTS = {*map(str, range(1, 17)), "Low"}


def test_every_point_is_attacked() -> None:
    found: set[str] = set()
    uses = 0
    for path in Path(__file__).parent.rglob("test_*.py"):
        text = path.read_text()
        uses += len(re.findall(r"^@attack\(", text, re.MULTILINE))
        marks = _MARK.findall(text)
        uses -= len(marks)
        found |= {point for numbers, _ in marks for point in numbers.split(", ")}
    assert found == POINTS
    assert uses == 0, "each mark names its point and what is tried"
