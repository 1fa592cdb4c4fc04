"""Why a server died, from its exit code and its last lines."""

import time

import pytest

from infra.sglang.logs import accept_lengths, decode_rates, explain_exit
from sweeps.results import Outcome


@pytest.mark.parametrize(
    ("code", "tail", "outcome", "says"),
    [
        (2, ["usage: ...", "sglang serve: error: unrecognized arguments: --no-such-flag 1"],
         Outcome.INFEASIBLE, "refused flags: --no-such-flag 1"),
        (2, ["error: argument --attention-backend: invalid choice: 'nope' (choose from x)"],
         Outcome.INFEASIBLE, "invalid choice: 'nope'"),
        (-9, ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"],
         Outcome.INFEASIBLE, "out of memory"),
        (-9, ["ERROR: [Errno 98] error while attempting to bind on address: "
              "address already in use"], Outcome.FAILED, "port in use"),
        (1, ["ValueError: Ngram speculative decoding only supports CUDA device."],
         Outcome.INFEASIBLE, "no n-gram speculation"),
        (1, ["OSError: Repo id must be in the form 'repo_name'"], Outcome.FAILED,
         "the model could not be read"),
        (-9, ["ncclInternalError: Failed to CUDA calloc 10485760 bytes"], Outcome.INFEASIBLE,
         "10485760 bytes"),
        (-15, ["ValueError: x", "guard: the lease of 20 s ran out"], Outcome.FAILED,
         "ended by its guard: the lease"),
        (-11, ["", "loading", ""], Outcome.INFEASIBLE,
         "native code: exit code -11, last line: loading"),
        (3, ["", "loading", ""], Outcome.FAILED, "ended with 3: loading"),
        (0, [], Outcome.FAILED, "no output"),
    ],
)  # fmt: skip
def test_explains(code: int, tail: list[str], outcome: Outcome, says: str) -> None:
    why = explain_exit(code, tail)
    assert why.outcome is outcome
    assert says in why.reason


def test_reads_the_accept_length_of_every_decode_line_of_every_version() -> None:
    lines = [
        "[t] Decode batch. #running-req: 1, #token: 38, accept len: 1.50, cuda graph: True",
        "[t] Decode batch, #running-req: 1, #token: 38, token usage: 0.00, accept len: 1.10,"
        " accept rate: 0.01, cpu graph: False, gen throughput (token/s): 281.29, #queue-req: 0",
        "[t] Decode batch, #running-req: 8, #token: 520, gen throughput (token/s): 2194.95",
        "[t] Prefill batch, accept len: 9.9",
    ]
    assert accept_lengths(lines) == [1.5, 1.1]


def test_reads_the_rate_of_every_decode_line_of_one_rank() -> None:
    lines = [
        "[t TP0] Decode batch, #running-req: 8, gen throughput (token/s): 2194.95, #queue-req: 0",
        "[t TP0] Prefill batch, input throughput (token/s): 9.9",
        "[t TP0] Decode batch. #running-req: 8, cuda graph: True, gen throughput (token/s): 20,",
    ]
    assert decode_rates(lines) == [2194.95, 20.0]
    assert decode_rates([line.replace("TP0", "DP1 TP0") for line in lines]) == []


def test_a_flood_without_line_ends_costs_about_what_ordinary_lines_cost() -> None:
    """No pattern may pore over a long line again and again: logs are whatever a server writes."""
    ordinary = ["[2026-01-01 00:00:00 TP0] Decode batch, #running-req: 1, #token: 38"] * 1000
    spent_s = []
    for lines in (ordinary, ["x" * 70_000] * 20, ["RuntimeError: a " * 4000] * 20):
        began_s = time.process_time()
        explain_exit(-9, lines)
        spent_s.append(time.process_time() - began_s)
    assert max(spent_s[1:]) < 40 * spent_s[0]
