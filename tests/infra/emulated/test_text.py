"""The text of the emulated model depends on the prompt alone, and reads like its kind."""

import hashlib
import statistics
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.emulated.text import (
    BUILT_IN,
    EOS_ID,
    PAD_ID,
    Kind,
    TargetStream,
    kind_of,
    render,
    render_all,
    seed_of,
    tokenize,
)
from sweeps.prompt_sets import PROMPT_SETS, built_in

_DIGEST = """
import hashlib
from infra.emulated.text import Kind, TargetStream, tokenize
ids = [TargetStream(5, kind).window(0, 1500) for kind in Kind] + [tokenize("naïve Größe 数え x_y")]
print(hashlib.sha256(repr(ids).encode()).hexdigest())
"""


def runs(tokens: list[int], length: int) -> set[tuple[int, ...]]:
    """Return all windows of a length."""
    return {tuple(tokens[at : at + length]) for at in range(len(tokens) - length + 1)}


@pytest.mark.parametrize("kind", Kind)
def test_a_prompt_fixes_the_text_however_it_is_asked_for(kind: Kind) -> None:
    whole = BUILT_IN.stream(seed_of("a prompt"), kind).window(0, 5000)
    piecewise = TargetStream(seed_of("a prompt"), kind)
    assert [piecewise.window(n, 1)[0] for n in range(5000)] == whole
    assert PAD_ID not in whole
    assert max(whole) < 2**31


def test_another_process_writes_the_same() -> None:
    ids = [TargetStream(5, kind).window(0, 1500) for kind in Kind]
    here = hashlib.sha256(repr([*ids, tokenize("naïve Größe 数え x_y")]).encode()).hexdigest()
    there = subprocess.run(
        [sys.executable, "-c", _DIGEST], capture_output=True, text=True, check=True, timeout=60
    )
    assert there.stdout.strip() == here


@pytest.mark.parametrize("kind", Kind)
def test_texts_of_two_prompts_share_no_long_run(kind: Kind) -> None:
    one, other = (TargetStream(seed_of(prompt), kind).window(0, 6000) for prompt in ("a", "b"))
    assert not runs(one, 24) & runs(other, 24)


@pytest.mark.parametrize("kind", Kind)
def test_a_text_sent_back_as_a_prompt_keeps_its_ids(kind: Kind) -> None:
    ids = [token for token in TargetStream(9, kind).window(0, 6000) if token != EOS_ID]
    assert tokenize(render_all(ids)) == ids


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_comes_back_from_its_ids(text: str) -> None:
    assert render_all(tokenize(text)) == text


def test_ids_that_nobody_had_read_as_unknown() -> None:
    assert render(EOS_ID) == ""
    assert render(2**31 + 5) == "\ufffd"


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMPT_SETS)
def test_each_prompt_set_gets_its_kind(name: str) -> None:
    kinds = {
        "reasoning": Kind.THINK, "code": Kind.CODE, "chat": Kind.PROSE,
        "edit": Kind.CODE, "quote": Kind.PROSE, "conversation": Kind.PROSE,
    }  # fmt: skip
    prompts = [prompt.text for prompt in built_in(name).prompts]
    assert {kind_of(prompt) for prompt in prompts} == {kinds[name]}
    assert {kind_of(f"<|im_user|>{prompt}<|im_end|>") for prompt in prompts} == {kinds[name]}


def test_the_look_of_the_prompt_decides_the_kind() -> None:
    assert kind_of("Write a Python function that sorts") is Kind.CODE
    assert kind_of("Explain `x`") is Kind.CODE
    assert kind_of("Why is the sky blue?") is Kind.THINK
    assert kind_of("Describe the sky.") is Kind.PROSE
    assert kind_of("") is Kind.THINK


def test_each_kind_looks_like_itself() -> None:
    code, think, prose = (
        render_all(TargetStream(1, kind).window(0, 3000))
        for kind in (Kind.CODE, Kind.THINK, Kind.PROSE)
    )
    assert code.startswith("def ")
    assert code.count("\n    return ") > 10
    assert prose.startswith("##")
    assert "\n- " in prose
    openings = [" ".join(sentence.split()[-6:]) for sentence in think.split(".")]
    assert len(set(openings)) < 0.95 * len(openings)


@pytest.mark.parametrize(
    ("kind", "mean"), [(Kind.THINK, 2500), (Kind.CODE, 900), (Kind.PROSE, 700)]
)
def test_an_answer_ends_once_and_at_the_end_of_a_sentence(kind: Kind, mean: int) -> None:
    lengths = []
    for seed in range(60):
        stream = TargetStream(seed, kind)
        end = stream.natural_tokens
        lengths.append(end)
        text = stream.window(0, end + 400)
        assert [at for at, token in enumerate(text) if token == EOS_ID] == [end]
        assert render(text[end - 1])[-1] in ".\n"
    assert min(lengths) >= 16
    assert statistics.mean(lengths) == pytest.approx(mean, rel=0.2)
    assert statistics.stdev(lengths) > 0.3 * mean
