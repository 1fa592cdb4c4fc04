"""What failed requests say of a server, and what the load itself explains."""

from dataclasses import replace

import pytest

from sweeps.breakage import breakage_of
from sweeps.records import EndReason
from sweeps.token_accounts import MISCOUNT
from tests.sweeps.passes import of, steady

BY_LOAD = [
    "HTTP 429: Too Many Requests",
    'HTTP 503: {"message":"The request queue is full."}',
    "the server reports: The request queue is full.",
    "the server reports: The input (9001 tokens) is longer than the model's context length (4096)",
    "the server aborted the request (429): The routing key has too many requests in the queue.",
    "the server aborted the request (503): Request waiting timeout reached.",
    "the server reports (503): Retracted under decode memory pressure without a KV backup.",
    "the server aborted the request (400): Multimodal prompt is too long after expanding.",
    "HTTP 400: Requested token count exceeds the model's maximum context length of 4096 tokens",
    "HTTP 400: Input length (9001 tokens) exceeds the maximum allowed length (4090 tokens).",
]
BY_SERVER = [
    "cannot connect: [Errno 111] Connection refused",
    "the stream closed in the middle",
    "HTTP 500: Internal Server Error",
    "HTTP 503: Service Unavailable",
    "the server reports: CUDA out of memory",
    "the server reports (503): Request running timeout reached.",
    "the server aborted the request: Aborted",
    f"{MISCOUNT}: usage counts 64 tokens, but 26 came without a text",
]


@pytest.mark.parametrize("detail", [*BY_LOAD, *BY_SERVER])
def test_refusals_for_the_load_are_told_from_faults(detail: str) -> None:
    failed = replace(steady(), end=EndReason.BROKEN, detail=detail)
    found = breakage_of(of(*[steady()] * 3, failed))
    assert found is not None
    assert (found.refused, found.broken) == ((1, 0) if detail in BY_LOAD else (0, 1))
    assert found.is_telling == (detail in BY_SERVER)
    assert found.is_miscounted == detail.startswith(MISCOUNT)
    assert detail in str(found)


@pytest.mark.parametrize(("broken", "telling"), [(1, False), (2, False), (3, True)])
def test_a_few_broken_of_many_say_nothing_of_the_others(broken: int, telling: bool) -> None:
    failed = replace(steady(), end=EndReason.BROKEN, detail="the stream closed in the middle")
    found = breakage_of(of(*[steady()] * (40 - broken), *[failed] * broken))
    assert found is not None
    assert found.is_telling == telling


def test_a_pass_without_a_failure_has_no_breakage() -> None:
    assert breakage_of(of(steady(), steady(end=EndReason.DEADLINE))) is None
