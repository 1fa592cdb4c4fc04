"""Which survivors of a mutation run count, and whether the accepted ones are still there."""

from pathlib import Path

import pytest

from tests.mutants.judging import ACCEPTED, Acceptance, Mutant, accepted_in, judge

ROOT = Path(__file__).parents[2]
DIFF = """--- mutation diff ---
--- a/m.py
+++ b/m.py
@@ -1,3 +1,3 @@
 def f():
-    return 1
+    return 2

"""


def mutant(outcome: str | None, diff: str = DIFF) -> Mutant:
    return Mutant.from_data(
        {"module": "m.py", "line": 2, "definition": "f", "outcome": outcome, "diff": diff}
    )


def test_survivors_that_are_accepted_do_not_count() -> None:
    tried = [mutant("killed"), mutant("survived"), mutant("incompetent"), mutant(None)]
    bare = judge(tried, [])
    assert (bare.drawn, bare.tried, bare.noticed, bare.accepted) == (4, 3, 2, 0)
    assert bare.share == pytest.approx(2 / 3)
    assert [(one.was, one.now) for one in bare.survivors] == [("return 1", "return 2")]
    forgiven = judge(tried, [Acceptance("m.py", "return 1", "return 2", "it is the same")])
    assert (forgiven.accepted, forgiven.survivors, forgiven.share) == (1, (), 1.0)
    other = judge(tried, [Acceptance("n.py", "return 1", "return 2", "another module")])
    assert (other.accepted, other.share) == (0, bare.share)


def test_nothing_tried_is_not_all_noticed() -> None:
    assert judge([mutant(None)], []).share == 0.0


def test_accepted_changes_are_of_lines_that_are_there_and_say_why() -> None:
    for one in accepted_in(ACCEPTED):
        lines = [line.strip() for line in (ROOT / one.module).read_text().splitlines()]
        assert all(part in lines for part in one.was.split(" / ")), one
        assert one.reason.endswith("."), one
