"""What a run says about a trial."""

from dataclasses import replace

import pytest

from orchestrator.tracking import run_content
from sweeps.config import Config
from sweeps.results import Estimate, Outcome
from sweeps.values import Value
from tests.orchestrator.tracking import stores


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (dict(stores.CONFIG), "ngram n4 · LL #12"),
        ({"speculative_algorithm": None, "NCCL_PROTO": None}, "plain #12"),
        (
            {"speculative_algorithm": "EAGLE3", "disable_custom_all_reduce": True},
            "eagle3 · no-custom-ar #12",
        ),
        (
            {"enable_mscclpp": False, "mem_fraction_static": 0.88},
            "plain · mem_fraction_static=0.88 #12",
        ),
    ],
)
def test_names_are_short_and_say_what_is_set(config: dict[str, Value], name: str) -> None:
    assert run_content.trial_name(stores.card(12, Config.of(config), emulated=False)) == name


def test_a_name_says_first_that_it_is_emulated() -> None:
    assert run_content.trial_name(stores.card(3)) == "EMULATED ngram n4 · LL #3"


def test_a_name_that_is_too_long_keeps_its_number() -> None:
    card = replace(stores.card(3), name="x" * 500)
    name = run_content.trial_name(card)
    assert name.endswith("… #3") and len(name) < 130


def test_every_axis_of_the_sweep_is_a_parameter() -> None:
    axes = {"speculative_num_draft_tokens": True, "speculative_ngram_match_type": False}
    sweep = replace(stores.SWEEP, axes=axes, plain={"speculative_algorithm": None})
    plain = Config.of({"speculative_algorithm": None})
    card = run_content.trial_card(sweep, "t0", 0, plain, "baseline", emulated=False)
    assert card.name == "plain"
    assert run_content.requested(card) == {
        "config.speculative_algorithm": "plain",
        "config.speculative_num_draft_tokens": "0",
        "config.speculative_ngram_match_type": "-",
    }


@pytest.mark.parametrize(
    ("outcome", "estimate", "bound", "text"),
    [
        (Outcome.MEASURED, stores.estimate(100.0, 99.0, 101.0), None, "100.0 ±1.0 EMULATED"),
        (Outcome.PARTIAL, stores.estimate(100.0), None, "100.0 EMULATED"),
        (Outcome.STOPPED, stores.estimate(90.0, 80.0, 95.0), 93.5, "at most 93.5 EMULATED"),
        (Outcome.HUNG, None, None, "hung: in weights"),
        (Outcome.CANCELLED, stores.estimate(100.0), None, "cancelled: in weights"),
    ],
)
def test_a_result_is_told_in_a_few_words(
    outcome: Outcome, estimate: Estimate | None, bound: float | None, text: str
) -> None:
    estimates = {"decode_tok_s": estimate} if estimate else {}
    made = stores.result(1, outcome, estimates, reason="in weights")
    assert run_content.result_text(replace(made, bound=bound), "decode_tok_s") == text


def test_every_outcome_has_a_status() -> None:
    assert run_content.RUN_STATUS.keys() == set(Outcome)


def test_a_result_names_the_card_of_its_trial() -> None:
    made = run_content.card_of(stores.result(5))
    assert replace(made, name="") == stores.card(5)


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
