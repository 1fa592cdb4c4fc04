"""The built-in sets hold enough prompts, all distinct, that share little with each other."""

from itertools import pairwise, takewhile
from operator import eq

import pytest

from sweeps.prompt_sets import PROMPT_SETS, built_in
from sweeps.prompts import Message, Prompt, PromptSet

NAMES = tuple(PROMPT_SETS)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_large_and_repeats_nothing(name: str) -> None:
    source = built_in(name)
    assert len(source.prompts) == 640
    assert source.passed_over == 0
    assert len({prompt.key for prompt in source.prompts}) == 640
    assert all(prompt.text.strip() and "{" not in prompt.messages[-1].content.replace("{}", "")
               for prompt in source.prompts)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_no_two_prompts_share_a_long_prefix(name: str) -> None:
    """Else the prefix cache of a server would make the later one cheaper."""
    texts = sorted(prompt.text for prompt in built_in(name).prompts)
    shared = [sum(takewhile(bool, map(eq, *pair))) for pair in pairwise(texts)]
    assert max(shared) < 100


@pytest.mark.parametrize("name", NAMES)
def test_each_is_the_same_whenever_it_is_made(name: str) -> None:
    assert PromptSet.of(PROMPT_SETS[name]()) == built_in(name)


def test_sets_share_no_prompt() -> None:
    keys = {prompt.key for name in NAMES for prompt in built_in(name).prompts}
    assert len(keys) == 640 * len(NAMES)
    assert len({built_in(name).contents for name in NAMES}) == len(NAMES)


def test_conversations_have_turns_and_end_with_the_user() -> None:
    for prompt in built_in("conversation").prompts:
        roles = [message.role for message in prompt.messages]
        assert len(roles) in (3, 5)
        assert roles[::2] == ["user"] * len(roles[::2])
        assert roles[1::2] == ["assistant"] * len(roles[1::2])


def test_a_wish_names_what_its_report_or_file_holds() -> None:
    for name, wishes in (("edit", "Rename the field"), ("quote", "sentences that mention")):
        asked = [p.text for p in built_in(name).prompts if wishes in p.text]
        assert len(asked) == 80
        for text in asked:
            given, _, wish = text.rpartition("\n\n")
            what = wish.split("`")[1] if name == "edit" else wish.split("mention ")[1].rstrip(".")
            assert what in given


def test_prompts_of_many_lengths_to_copy_from() -> None:
    lengths = sorted(len(prompt.text) for prompt in built_in("quote").prompts)
    assert lengths[-1] > 5 * lengths[0]


def test_turns_are_the_user_s_first() -> None:
    prompt = Prompt.after("a", "b", "c")
    assert prompt.messages == (
        Message("user", "a"), Message("assistant", "b"), Message("user", "c"),
    )  # fmt: skip
    assert prompt.text == "user: a\n\nassistant: b\n\nuser: c"
    assert Prompt.of("a") == Prompt.after("a")


def test_of_equal_prompts_the_first_stays() -> None:
    made = PromptSet.of([Prompt.of("a"), Prompt.of("b"), Prompt.of("a")], passed_over=2)
    assert [prompt.text for prompt in made.prompts] == ["a", "b"]
    assert made.passed_over == 3
    assert made.contents == PromptSet.of([Prompt.of("a"), Prompt.of("b")]).contents
    assert made.contents != PromptSet.of([Prompt.of("b"), Prompt.of("a")]).contents
