"""Runs in the environment of cosmic-ray: keeps a seeded sample of a session, and forgets results.

`session.py sample DATABASE COUNT SEED [WITHOUT]` drops all mutants but COUNT: one for each place
and kind of change, drawn by SEED; none in the module WITHOUT. `session.py again DATABASE` has the
survivors tried once more. `session.py show DATABASE` prints one JSON object for each mutant.
"""

import json
import random
import re
import sys
from importlib import import_module
from typing import Any  # cosmic-ray is not there where types are checked

_DB: Any = import_module("cosmic_ray.work_db")

_SUMS = "Add|Sub|Mul|Div|FloorDiv|Mod|Pow"
_ORDERS = "Eq|NotEq|Lt|LtE|Gt|GtE"
KINDS = re.compile(
    "core/(?:"
    f"(?P<sum>ReplaceBinaryOperator)_(?:{_SUMS})_(?:{_SUMS})|"
    f"(?P<order>ReplaceComparisonOperator)_(?:(?:{_ORDERS})_(?:{_ORDERS})|Is_IsNot|IsNot_Is)|"
    "(?P<sign>ReplaceUnaryOperator)_Delete_(?:Not|USub)|"
    "(?P<other>NumberReplacer|AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|"
    "ReplaceOrWithAnd|ZeroIterationForLoop|ReplaceBreakWithContinue|ReplaceContinueWithBreak|"
    "ExceptionReplacer))"
)
"""What is drawn: changes that leave a sound program. The rest (`|` of types, `is` into `<`, numbers
shifted, decorators removed) mostly breaks the import, which any test notices."""


def main(action: str, database: str, *words: str) -> None:
    """Do one of the three."""
    with _DB.use_db(database, _DB.WorkDB.Mode.open) as session:
        if action == "sample":
            _sample(session, int(words[0]), int(words[1]), words[2:])
        elif action == "again":
            _again(session)
        else:
            _show(session)


def _sample(session: Any, count: int, seed: int, without: tuple[str, ...]) -> None:
    places: dict[tuple[Any, ...], list[Any]] = {}
    items = session.work_items
    for item in items:
        (one,) = item.mutations
        kind = KINDS.fullmatch(one.operator_name)
        if kind and str(one.module_path) not in without:
            place = (str(one.module_path), tuple(one.start_pos), kind.lastgroup)
            places.setdefault(place, []).append(item)
    luck = random.Random(seed)
    chosen = luck.sample(sorted(places), min(count, len(places)))
    drawn = [luck.choice(sorted(places[place], key=_order)) for place in chosen]
    print(f"{len(items)} mutants at {len(places)} places, {len(drawn)} drawn", file=sys.stderr)
    session.clear()
    session.add_work_items(drawn)


def _order(item: Any) -> tuple[str, int]:
    (one,) = item.mutations
    return one.operator_name, one.occurrence


def _again(session: Any) -> None:
    left = [item for item, result in session.completed_work_items if not result.is_killed]
    done = [(item, result) for item, result in session.completed_work_items if result.is_killed]
    pending = list(session.pending_work_items)
    session.clear()
    session.add_work_items([*left, *pending, *(item for item, _ in done)])
    for item, result in done:
        session.set_result(item.job_id, result)


def _show(session: Any) -> None:
    known = dict(session.results)
    for item in session.work_items:
        (one,) = item.mutations
        result = known.get(item.job_id)
        told = {
            "module": str(one.module_path), "line": one.start_pos[0],
            "operator": one.operator_name, "definition": one.definition_name,
            "outcome": result.test_outcome.value if result and result.test_outcome else None,
            "diff": result.diff if result else None,
        }  # fmt: skip
        print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
