"""Drafts from a table, and steps in spells: both must do what single steps of the drafter do."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.emulated.drafting.remembered import KnownDrafts, RememberedDrafter
from infra.emulated.engine import EmulatedEngine
from infra.emulated.settings import Algorithm, Settings
from infra.emulated.truth import TRUTHS
from sweeps.drafting.ngram import NgramDrafter, NgramShape

SHAPE = NgramShape(draft_tokens=4, depth=6, max_breadth=3)


class Served:
    """A request that is served step by step, the last tokens of its text cut off."""

    def __init__(self, drafter: RememberedDrafter | NgramDrafter, key: int, steps: int) -> None:
        rng = random.Random(key)
        self.text = [rng.randrange(1, 4) for _ in range(60)]
        self.request = drafter.open(self.text[:5], key)
        self.request.commit(self.text[5:6])
        self.done, self.left, self.matches = 6, steps, list[int]()

    def draft(self) -> None:
        """Draft one step."""
        upcoming = self.text[self.done : self.done + SHAPE.draft_tokens]
        self.matches.append(self.request.correct_drafts(upcoming[:-1]))

    def commit(self) -> None:
        """Commit what the step matched."""
        taken = self.text[self.done : self.done + self.matches[-1] + 1]
        self.request.commit(taken)
        self.done += len(taken)
        self.left -= 1
        if not self.left:
            self.request.end(())


Plan = list[tuple[list[tuple[int, int]], bool]]
"""Batches of requests that step together (key and steps of each), and whether a flush follows."""


def serve(drafter: RememberedDrafter | NgramDrafter, plan: Plan) -> list[list[int]]:
    """Serve batches one after the other; return the matches of every request."""
    found = []
    for batch, flushes in plan:
        running = []
        for key, steps in batch:
            running.append(Served(drafter, key, steps))
        found += running
        while any(one.left for one in running):
            alive = [one for one in running if one.left]
            for one in alive:
                one.draft()
            for one in alive:
                one.commit()
        if flushes:
            drafter.reset()
    return [one.matches for one in found]


plans = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 12)), min_size=1, max_size=2),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@given(st.lists(plans, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_a_table_gives_what_the_drafter_would(many: list[Plan]) -> None:
    known = KnownDrafts()
    for plan in many:
        remembered = RememberedDrafter.of(NgramDrafter(SHAPE), known)
        assert serve(remembered, plan) == serve(NgramDrafter(SHAPE), plan)


def test_what_is_known_is_not_drafted_again_and_survives_the_process(tmp_path: Path) -> None:
    plan: Plan = [([(1, 8)], False), ([(2, 8)], False)]
    known = KnownDrafts(tmp_path)
    first = serve(RememberedDrafter.of(NgramDrafter(SHAPE), known), plan)
    known.save()
    inner = NgramDrafter(SHAPE)
    again = serve(RememberedDrafter.of(inner, KnownDrafts(tmp_path)), plan)
    assert again == first
    assert inner.trie.follow([], [1]) == []  # nothing was inserted: all came from the table


def test_a_torn_file_loses_its_last_row_alone(tmp_path: Path) -> None:
    known = KnownDrafts(tmp_path)
    plan: Plan = [([(1, 8)], True), ([(2, 8)], True)]
    first = serve(RememberedDrafter.of(NgramDrafter(SHAPE), known), plan)
    known.save()
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:-3])
    torn = KnownDrafts(tmp_path)
    assert len(torn.of(SHAPE)) == 1
    assert serve(RememberedDrafter.of(NgramDrafter(SHAPE), torn), plan) == first


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_spell_is_as_many_single_steps(algorithm: Algorithm) -> None:
    plain = algorithm is Algorithm.PLAIN
    how = replace(
        Settings(), algorithm=algorithm, draft_tokens=1 if plain else 4,
        draft_steps=0 if plain else 3, draft_model="" if plain else "own",
    )  # fmt: skip
    prompt, limit = "Write a function that sorts a list.", 300
    stepwise = EmulatedEngine(how, TRUTHS["M"], 3)
    alone = EmulatedEngine(how, TRUTHS["M"], 3, known=KnownDrafts())
    times_s, counts, due_s = [], [], 10.0
    request = stepwise.open(prompt, limit)
    stepwise.prefill([request])
    while not request.finished:
        due_s += stepwise.decode([request])[0].duration_s
        times_s.append(due_s)
        counts.append(len(request.output))
    other = alone.open(prompt, limit)
    alone.prefill([other])
    found_s, found, due_s = list[float](), list[int](), 10.0
    while not other.finished:
        spell = alone.decode_alone(other, due_s, due_s + 0.5)
        due_s = spell.times_s[-1]
        found_s += spell.times_s
        found += spell.completion_tokens
    assert found == counts
    assert found_s == pytest.approx(times_s)
    assert other.output == request.output
    assert (other.verifies, other.histogram) == (request.verifies, request.histogram)
