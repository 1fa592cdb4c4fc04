"""The text of the emulated model depends on the prompt alone."""

import pytest

from infra.emulated.text import PAD_ID, Kind, TargetStream, kind_of, render_all, seed_of, tokenize


@pytest.mark.parametrize("kind", Kind)
def test_a_prompt_fixes_the_text_however_it_is_asked_for(kind: Kind) -> None:
    whole = TargetStream(seed_of("a prompt"), kind).window(0, 5000)
    piecewise = TargetStream(seed_of("a prompt"), kind)
    assert [piecewise.window(n, 1)[0] for n in range(5000)] == whole
    assert TargetStream(seed_of("another"), kind).window(0, 5000) != whole
    assert PAD_ID not in whole


def test_the_look_of_the_prompt_decides_the_kind() -> None:
    assert kind_of("Write a Python function that sorts") is Kind.CODE
    assert kind_of("Explain `x`") is Kind.CODE
    assert kind_of("Why is the sky blue?") is Kind.THINK


def test_code_looks_like_code() -> None:
    text = render_all(TargetStream(1, Kind.CODE).window(0, 500))
    assert text.startswith("def ")
    assert text.count("return") > 3
    assert "\n    " in text


def test_prose_restates_itself() -> None:
    text = render_all(TargetStream(1).window(0, 6000))
    sentences = text.split(".")
    openings = [" ".join(sentence.split()[:3]) for sentence in sentences]
    assert len(set(openings)) < 0.97 * len(openings)
    assert "let me check this" in text


def test_written_pieces_keep_their_ids_in_a_prompt() -> None:
    assert len(tokenize("wait let me check this")) == 5
    assert tokenize(" check this") == tokenize("first check this")[1:]
