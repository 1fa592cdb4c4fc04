"""Draft trees are those of SGLang's own corpus, token by token, in the same order."""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import infra.sglang_cpu
from infra.emulated.text import Kind
from infra.sglang_cpu.build import build
from infra.sglang_cpu.launch import server_variables
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout
from tests.sweeps.drafting.ngram_cases import Order, Transcript, play, random_cases
from tests.sweeps.drafting.test_ngram import COMPARED, COMPARED_CASES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
PROGRAM = Path(infra.sglang_cpu.__file__).with_name("ngram_trees.py")
Tree = list[list[int]]


@pytest.fixture(scope="module")
def env() -> EnvLayout:
    """Build the environment where it is not yet built."""
    layout = EnvLayout(ROOT / DEFAULT_ENV)
    build(layout, ROOT / DEFAULT_MODEL, print)
    return layout


def sglang_trees(env: EnvLayout, orders: Sequence[Order]) -> list[list[Tree]]:
    done = subprocess.run(
        [str(env.python), str(PROGRAM)],
        input="".join(json.dumps(order) + "\n" for order in orders),
        env=server_variables(env) | {"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def differing(env: EnvLayout, transcript: Transcript) -> Counter[str]:
    """Count the batches that differ by the case that they are of."""
    theirs = sglang_trees(env, transcript.orders)
    ours = [[[list(t.tokens), list(t.parents)] for t in trees] for trees in transcript.trees]
    pairs = zip(ours, theirs, transcript.cases, strict=True)
    return Counter(repr(case) for our, their, case in pairs if our != their)


def test_all_trees_are_equal(env: EnvLayout) -> None:
    kinds = (Kind.CODE, Kind.THINK, 2, 3, 5, 30, 300)
    transcript = play(random_cases(1, kinds))
    assert transcript.steps > 10_000
    assert not differing(env, transcript)


def test_the_trees_of_the_fast_test_are_equal(env: EnvLayout) -> None:
    transcript = play(COMPARED_CASES)
    assert transcript.digest() == COMPARED
    assert not differing(env, transcript)
