"""Designed trials of a space with two algorithms: seeds, contrasts, neighbours and ablations."""

from collections.abc import Iterable

from sweeps.axes import Choice, IntRange
from sweeps.config import Config
from sweeps.expressions import ref
from sweeps.search.brief import never, same
from sweeps.search.designs import Designs, Idea
from sweeps.search.favourites import Favourites
from sweeps.search.feasibility import Feasibility
from sweeps.search.pool import PoolMaker
from sweeps.search.steps import Purpose
from sweeps.space import Rule, Space

ALGORITHM, WIDTH, STEPS = (
    "speculative_algorithm", "speculative_num_draft_tokens", "speculative_num_steps",
)  # fmt: skip
IPC, PROTO, ALGO = "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "NCCL_PROTO", "NCCL_ALGO"
AXES = (
    Choice(ALGORITHM, [None, "NGRAM", "EAGLE3"]),
    IntRange(WIDTH, 2, 32, {ALGORITHM: "NGRAM"}),
    IntRange(STEPS, 1, 8, {ALGORITHM: "EAGLE3"}),
    Choice(IPC, [None, "1"]), Choice(PROTO, [None, "LL", "Simple"]), Choice(ALGO, [None, "Ring"]),
)  # fmt: skip
NOTHING = Favourites(None, Feasibility({}))


def designs(*rules: Rule) -> Designs:
    space = Space(AXES, rules)
    return Designs(space, PoolMaker(space, same, never, 0))


def brief(ideas: Iterable[Idea]) -> list[tuple[object, ...]]:
    """Say of each idea what drafts, how much, and what differs in communication."""
    return [
        (i.config[ALGORITHM], i.config.get(WIDTH, i.config.get(STEPS)), i.config[IPC],
         i.config[PROTO], i.config[ALGO])
        for i in ideas
    ]  # fmt: skip


def draft(name: str, value: int) -> Config:
    axis = WIDTH if name == "NGRAM" else STEPS
    return Config.of({ALGORITHM: name, axis: value})


def test_the_opening_asks_each_algorithm_once_where_it_is_fastest() -> None:
    made = designs()
    assert made.algorithms == ("NGRAM", "EAGLE3")
    assert [name for name, _ in made.bold] == [IPC, PROTO]
    opening = list(made.opening(frozenset(), {}, NOTHING))
    assert brief(opening) == [
        (None, None, "1", None, None), ("NGRAM", 4, "1", None, None),
        ("EAGLE3", 2, "1", None, None),
    ]  # fmt: skip
    assert [i.purpose for i in opening] == [Purpose.CONTRAST, Purpose.SEED, Purpose.SEED]
    assert not any(i.forced for i in opening)
    tried = {"NGRAM": draft("NGRAM", 4)}
    assert brief(made.opening(frozenset(), tried, NOTHING)) == [
        (None, None, "1", None, None), ("EAGLE3", 2, "1", None, None),
    ]  # fmt: skip
    # The other all-reduce does nothing here: the next bold setting, and contrasts after it.
    inert = brief(made.opening(frozenset({IPC}), tried, NOTHING))
    assert inert == [
        (None, None, "1", None, None), ("EAGLE3", 2, None, "LL", None),
        ("NGRAM", 4, None, None, None), ("NGRAM", 4, None, "LL", None),
    ]  # fmt: skip
    nothing_bold = brief(made.opening(frozenset({IPC, PROTO}), tried, NOTHING))
    assert nothing_bold[1] == ("EAGLE3", 2, None, None, None)
    both = {**tried, "EAGLE3": draft("EAGLE3", 2)}
    assert brief(made.opening(frozenset(), both, NOTHING)) == [(None, None, "1", None, None)]


def test_a_seed_is_what_people_choose_or_the_next_that_rules_allow() -> None:
    assert designs().seed_draft("NGRAM") == draft("NGRAM", 4)
    wider = designs(Rule(ref(WIDTH) >= 5, "at least five"))
    assert wider.seed_draft("NGRAM") == draft("NGRAM", 5)
    # Three steps, then one: each is asked for; where the list is over, its last stands.
    one_step = designs(Rule(ref(STEPS) <= 1, "one step"))
    assert one_step.seed_draft("EAGLE3") == draft("EAGLE3", 1)
    never_right = designs(Rule(ref(STEPS) >= 4, "four steps and more"))
    assert never_right.seed_draft("EAGLE3") is None


def test_contrasts_hold_the_draft_and_change_the_transport() -> None:
    made = designs()
    tried = {"EAGLE3": draft("EAGLE3", 3)}
    assert brief(made.contrasts(frozenset(), tried)) == [
        ("EAGLE3", 3, None, None, None), ("EAGLE3", 3, "1", None, None),
        ("EAGLE3", 3, None, "LL", None),
    ]  # fmt: skip
    assert brief(made.contrasts(frozenset({IPC}), {})) == [
        ("NGRAM", 4, None, None, None), ("NGRAM", 4, None, "LL", None),
    ]  # fmt: skip


def test_neighbours_and_ablations_differ_from_the_leader_in_one_thing() -> None:
    made = designs()
    leader = Config.of({**made.plain, ALGORITHM: "NGRAM", WIDTH: 6, IPC: "1", ALGO: "Ring"})
    near = list(made.neighbours(leader, {"NGRAM": draft("NGRAM", 9), "EAGLE3": draft("EAGLE3", 3)}))
    found = brief(near)
    assert found[0] == (None, None, "1", None, None)
    assert near[0].forced
    assert not any(idea.forced for idea in near[1:])
    assert ("EAGLE3", 3, "1", None, "Ring") in found
    assert ("NGRAM", 6, None, None, "Ring") in found
    assert ("NGRAM", 6, "1", "LL", "Ring") in found
    assert {("NGRAM", 5, "1", None, "Ring"), ("NGRAM", 7, "1", None, "Ring")} <= set(found)
    assert not any(one[:2] == ("NGRAM", 9) for one in found), "of its own algorithm it is not asked"
    assert {idea.purpose for idea in near} == {Purpose.NEIGHBOUR}
    undone = list(made.ablations(leader))
    assert brief(undone) == [("NGRAM", 6, None, None, "Ring"), ("NGRAM", 6, "1", None, None)]
    assert {idea.purpose for idea in undone} == {Purpose.ABLATION}
    plain_leads = Config.of({**made.plain, PROTO: "LL"})
    switched = list(made.neighbours(plain_leads, {}))
    assert brief(switched) == [(None, None, "1", "LL", None), (None, None, None, None, None)]
    assert all(idea.forced for idea in switched), "plain decode is checked whatever is believed"
