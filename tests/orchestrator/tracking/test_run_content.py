"""What a run says about a trial."""

from dataclasses import replace

import pytest

from orchestrator.tracking import run_content
from sweeps.config import Config
from sweeps.results import Outcome
from sweeps.values import Value
from tests.orchestrator.tracking import stores


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (dict(stores.CONFIG), "012 NGRAM n=4 proto=LL"),
        ({"speculative_algorithm": None, "NCCL_PROTO": None}, "012 plain"),
        (
            {"speculative_algorithm": "EAGLE3", "disable_custom_all_reduce": True},
            "012 EAGLE3 disable_custom_all_reduce",
        ),
        (
            {"enable_mscclpp": False, "mem_fraction_static": 0.88},
            "012 plain mem_fraction_static=0.88",
        ),
    ],
)
def test_names_are_short_and_say_what_is_set(config: dict[str, Value], name: str) -> None:
    assert run_content.trial_name(stores.card(12, Config.of(config), emulated=False)) == name


def test_a_name_says_emulated_and_why_it_ran() -> None:
    card = replace(stores.card(3), purpose="confirm")
    assert run_content.trial_name(card) == "003 emulated NGRAM (confirm) n=4 proto=LL"


def test_every_outcome_has_a_status() -> None:
    assert run_content.RUN_STATUS.keys() == set(Outcome)


def test_a_result_names_the_card_of_its_trial() -> None:
    assert run_content.card_of(stores.result(5)) == stores.card(5)


@pytest.mark.parametrize(
    ("text", "at_ms"), [("1970-01-01T01:00:01.5+01:00", 1500), ("", None), ("soon", None)]
)
def test_the_start_of_a_trial_is_read(text: str, at_ms: int | None) -> None:
    assert run_content.started_ms(replace(stores.result(1), started_at=text)) == at_ms


def test_a_command_line_is_one_text_that_a_shell_reads() -> None:
    assert run_content.command(stores.result(1)) == {}
    started = replace(stores.result(1), argv=("python", "-m", "sglang", "--name", "a b"))
    assert run_content.command(started) == {"command": "python -m sglang --name 'a b'"}


def test_numbers_that_are_none_are_named() -> None:
    numbers = {"a": 1.0, "b": None, "c": float("nan"), "d": float("-inf")}
    assert run_content.finite(numbers) == {"a": 1.0}
    assert run_content.not_finite(numbers) == "c=nan, d=-inf"
