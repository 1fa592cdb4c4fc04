"""Names and values that a store takes, and back."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tracking.legal import batches, legal_names, legal_texts, name_tags

LONGEST = 60


@pytest.mark.parametrize("name", ["ttft_s", "phase_s.cold_pass", "a/b", "a b-c.d", "effective.x y"])
def test_legal_names_stay(name: str) -> None:
    assert legal_names([name], LONGEST) == {name: name}


@pytest.mark.parametrize(
    ("name", "legal"),
    [("sglang:gen_throughput", "sglang_gen_throughput"), ("p@99", "p_99"), ("x(s)", "x_s_"),
     ("a//b", "a__b"), ("/a", "_a"), ("..", "_")],
)  # fmt: skip
def test_other_names_become_legal(name: str, legal: str) -> None:
    assert legal_names([name], LONGEST) == {name: legal}


def test_two_names_never_become_one_whatever_their_order() -> None:
    names = ["a:b", "a_b", "a@b"]
    made = legal_names(names, LONGEST)
    assert made["a_b"] == "a_b"
    assert len(set(made.values())) == 3
    assert legal_names(names[::-1], LONGEST) == made


@given(st.lists(st.text(max_size=100), max_size=8))
def test_whatever_the_names_they_are_legal_and_differ(names: list[str]) -> None:
    made = legal_names(names, LONGEST)
    assert made.keys() == set(names)
    assert len(set(made.values())) == len(made)
    for legal in made.values():
        assert re.fullmatch(r"[A-Za-z0-9_. /-]{1,60}", legal)
        assert not legal.startswith("/")
        assert ".." not in legal.split("/")


def test_long_values_have_a_short_form_that_tells_them_apart() -> None:
    texts = {"argv": "x" * 900 + "1", "other": "x" * 900 + "2", "tp": "8"}
    made = legal_texts(texts, 500, LONGEST)
    assert made.too_long == {name: texts[name] for name in ("argv", "other")}
    assert made.sent["tp"] == "8"
    assert all(len(text) <= 500 for text in made.sent.values())
    assert made.sent["argv"].replace("argv", "") != made.sent["other"].replace("other", "")


def test_originals_of_changed_names_are_kept() -> None:
    made = legal_texts({"a:b": "1", "c": "2"}, 500, LONGEST)
    assert name_tags(made.renamed) == {"name.a_b": "a:b"}


@given(st.lists(st.integers(0, 50)), st.integers(1, 7), st.integers(1, 100))
def test_batches_hold_all_in_order_within_both_limits(
    sizes: list[int], most: int, most_bytes: int
) -> None:
    made = list(batches([(size, size) for size in sizes], most, most_bytes))
    assert [size for batch in made for size in batch] == sizes
    for batch in made:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or sum(batch) <= most_bytes
