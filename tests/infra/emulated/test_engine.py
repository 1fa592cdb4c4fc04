"""The engine gives the founding figures, by itself and without a clock."""

import statistics
from collections.abc import Mapping

import pytest

from infra.emulated.engine import EmulatedEngine, Generation, Step
from infra.emulated.settings import make_settings
from infra.emulated.text import Kind
from infra.emulated.truth import TRUTHS
from sweeps.values import Value

BASE: dict[str, Value] = {"model_path": "m", "tp_size": 8}
NGRAM: dict[str, Value] = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 8}
EAGLE: dict[str, Value] = {
    "speculative_algorithm": "EAGLE3",
    "speculative_draft_model_path": "d",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
}


def engine(
    given: Mapping[str, Value] | None = None,
    env: Mapping[str, str] | None = None,
    *,
    seed: int = 1,
) -> EmulatedEngine:
    settings = make_settings({**BASE, **(given or {})}, env or {}, "0.5.23")
    return EmulatedEngine(settings, TRUTHS["M"], seed)


def rates(
    emulated: EmulatedEngine, prompts: int = 4, tokens: int = 2048, kind: Kind = Kind.THINK
) -> tuple[float, float]:
    """Return cold accept length and decode tokens per second."""
    steps: list[Step] = []
    for number in range(prompts):
        emulated.flush()
        steps += _alone(emulated, f"prompt {number}", tokens, kind)[1:]
    duration_s = sum(step.duration_s for step in steps)
    done = prompts * (tokens - 1)
    return done / len(steps), done / duration_s


def _alone(emulated: EmulatedEngine, prompt: str, tokens: int, kind: Kind) -> list[Step]:
    request = emulated.open(prompt, tokens, kind=kind)
    steps = emulated.prefill([request])
    while not request.finished:
        steps += emulated.decode([request])
    return steps


def test_founding_figures() -> None:
    _, plain = rates(engine(), prompts=2)
    accept, ngram = rates(engine(NGRAM), prompts=6)
    assert plain == pytest.approx(82, rel=0.03)
    assert 1.2 < accept < 1.45
    assert ngram == pytest.approx(41, rel=0.12)


def test_the_best_width_moves_with_protocol_and_text() -> None:
    def rate(width: int, proto: str, kind: Kind) -> float:
        given = {**NGRAM, "speculative_num_draft_tokens": width}
        return rates(engine(given, {"NCCL_PROTO": proto} if proto else {}), 3, 1024, kind)[1]

    cliff = {n: rate(n, "", Kind.CODE) for n in (2, 3, 8)}
    assert cliff[2] > 1.2 * cliff[3]
    cured = {n: rate(n, "LL", Kind.CODE) for n in (3, 8)}
    assert cured[3] > 1.05 * cured[8]
    assert cured[3] > 1.2 * cliff[3]


@pytest.mark.parametrize("prompt", ["think about it", "write a python function"])
def test_greedy_output_is_the_same_for_all_algorithms(prompt: str) -> None:
    outputs = []
    for given in ({}, NGRAM, {**NGRAM, "speculative_num_draft_tokens": 3}, EAGLE):
        outputs.append([t for step in engine(given).steps(prompt, 700) for t in step.tokens])
    assert all(output == outputs[0] for output in outputs)
    assert len(outputs[0]) == 700


def test_same_seed_same_figures() -> None:
    first, again, other = (list(engine(NGRAM, seed=s).steps("p", 300)) for s in (1, 1, 2))
    assert first == again
    assert [s.tokens for s in other] == [s.tokens for s in first]
    assert [s.duration_s for s in other] != [s.duration_s for s in first]


def test_breadth_two_equals_breadth_one() -> None:
    one, two = (
        [
            s.tokens
            for s in engine({**NGRAM, "speculative_ngram_max_bfs_breadth": breadth}).steps(
                "write code", 800
            )
        ]
        for breadth in (1, 2)
    )
    assert one == two


def test_a_repeated_prompt_is_a_replay_until_the_flush() -> None:
    emulated = engine(NGRAM)
    cold, warm = (len(list(emulated.steps("again", 1000))) for _ in range(2))
    emulated.flush()
    after = len(list(emulated.steps("again", 1000)))
    assert 1000 / warm > 4
    assert cold == after > 3 * warm


def test_counters_keep_their_identities() -> None:
    emulated = engine(NGRAM)
    for _ in range(2):
        request = emulated.open("count", 500)
        emulated.prefill([request])
        while not request.finished:
            emulated.decode([request])
        beyond = request.correct_drafts - (len(request.output) - 1 - request.verifies)
        assert 0 <= beyond < 8
        assert sum(request.histogram) == request.verifies
        assert sum(n * count for n, count in enumerate(request.histogram)) == request.correct_drafts


def test_requests_of_a_batch_share_a_step_that_costs_more() -> None:
    emulated = engine()
    requests = [emulated.open(f"p {n}", 200) for n in range(8)]
    emulated.prefill(requests)
    together = [emulated.decode(requests) for _ in range(100)]
    assert len({step.duration_s for step in together[0]}) == 1
    alone = statistics.median(s.duration_s for s in engine().steps("p 0", 101))
    batch = statistics.median(steps[0].duration_s for steps in together)
    assert 1.5 * alone < batch < 8 * alone


def test_a_request_that_ends_at_its_first_token_leaves_no_trace() -> None:
    emulated = engine(NGRAM)
    list(emulated.steps([0], 1))
    undisturbed = [s.tokens for s in engine(NGRAM).steps("p", 200)]
    assert [s.tokens for s in emulated.steps("p", 200)] == undisturbed


def test_prefix_cache_shortens_the_second_prefill() -> None:
    emulated = engine()
    prompt = list(range(1, 8001))

    def prefill() -> tuple[float, Generation]:
        request = emulated.open(prompt, 1)
        return emulated.prefill([request])[0].duration_s, request

    first_s, _ = prefill()
    second_s, request = prefill()
    assert request.cached_tokens == 7999
    assert second_s < first_s / 5


def test_sampling_varies_the_answer_by_seed() -> None:
    emulated = engine()
    texts = [
        emulated.open("p", 50, sampling_seed=seed).stream.window(0, 50) for seed in (None, 1, 1, 2)
    ]
    assert texts[1] == texts[2]
    assert texts[0] != texts[1] != texts[3]
