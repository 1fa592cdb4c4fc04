"""Names of configurations that ran alike: by whole accounts, on the same hosts, and told so."""

from dataclasses import replace

from sweeps.alike import namesakes, said_alike
from sweeps.config import Config
from sweeps.results import Outcome, TrialResult
from sweeps.values import Value
from tests.sweeps.makers import ngram, plain, result

CUSTOM, IPC = "disable_custom_all_reduce", "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"


def ran(number: int, config: Config, host: str = "local", /, **told: Value) -> TrialResult:
    """Return a trial whose server ran with what it was asked for, but for what is told."""
    made = result(number, config, 80.0, purpose="search" if number else "baseline")
    return replace(
        made, host=host, effective={**config, "page_size": 1, **told}, requested=dict(config)
    )


def groups(*results: TrialResult) -> list[tuple[Config, ...]]:
    return [found.configs for found in namesakes(results)]


OFF, ON = plain(**{CUSTOM: False}), plain(**{CUSTOM: True})
DRAFT_OFF, DRAFT_ON = ngram(4, **{CUSTOM: False}), ngram(4, **{CUSTOM: True})


def test_equal_accounts_on_a_host_are_one_configuration() -> None:
    assert groups(ran(0, OFF, disable_custom_all_reduce=True), ran(1, ON)) == [(OFF, ON)]
    assert groups(ran(0, OFF), ran(1, ON)) == []


def test_plain_decode_stands_for_its_group_and_else_what_was_started_first() -> None:
    first, second = ran(3, DRAFT_ON), ran(1, DRAFT_OFF, disable_custom_all_reduce=True)
    assert groups(first, second) == [(DRAFT_OFF, DRAFT_ON)]
    other = replace(second, number=4)
    assert groups(first, other) == [(DRAFT_ON, DRAFT_OFF)]
    same: dict[str, Value] = dict(DRAFT_ON)
    fallen = [ran(1, DRAFT_ON), ran(2, ON, **same), ran(3, OFF, **same), ran(0, OFF, **same)]
    assert groups(*fallen) == [(OFF, ON, DRAFT_ON)]


def test_what_no_server_told_never_makes_two_names_one() -> None:
    one, other = plain(NCCL_PROTO=None), plain(NCCL_PROTO="LL")
    silent = [replace(ran(n, c), effective={"page_size": 1}) for n, c in enumerate((one, other))]
    assert groups(*silent) == []
    assert groups(*(replace(r, effective={}) for r in silent)) == []
    half = [silent[0], ran(1, other, NCCL_PROTO=None)]
    assert groups(*half) == []
    assert groups(*(ran(n, c, NCCL_PROTO="LL") for n, c in enumerate((one, other)))) != []


def test_anything_else_that_differs_keeps_names_apart() -> None:
    first = ran(0, OFF, disable_custom_all_reduce=True)
    for other in (
        ran(1, ON, page_size=64),
        ran(1, ON, "elsewhere"),
        ran(1, ON, NCCL_NVLS_ENABLE="0"),
        replace(ran(1, ON), engine_version="0.5.22"),
        replace(ran(1, ON), fingerprint="other driver"),
    ):
        assert groups(first, other) == []


def test_names_are_one_only_if_every_start_on_every_host_of_theirs_says_so() -> None:
    here = [ran(0, OFF, disable_custom_all_reduce=True), ran(1, ON)]
    assert groups(*here, ran(2, OFF)) == []
    there = [ran(2, OFF, "b", disable_custom_all_reduce=True), ran(3, ON, "b")]
    assert groups(*here, *there) == [(OFF, ON)]
    assert groups(*here, there[0]) == []
    assert groups(*here, ran(2, OFF, "b"), there[1]) == []


def test_a_variable_that_nobody_sets_is_what_sglang_takes_for_it() -> None:
    unset, failed = ran(0, plain(**{IPC: None})), ran(1, plain(**{IPC: "1"}), **{IPC: "0"})
    assert groups(unset, failed) == [(unset.config, failed.config)]


def test_reports_say_which_names_ran_alike() -> None:
    off = ran(0, OFF, disable_custom_all_reduce=True)
    assert said_alike([off, off]) == (
        "disable_custom_all_reduce: off ran as on in two trials; no server was asked for on",
    )
    assert said_alike([off, ran(1, ON), replace(off, number=2)]) == (
        "plain disable_custom_all_reduce=True ran as plain did on local, by the servers' own "
        "accounts: one configuration (trials 0, 1 and 2)",
    )
    assert said_alike([ran(0, OFF), ran(1, ON)]) == ()
    failed = replace(off, effective={}, outcome=Outcome.FAILED)
    assert said_alike([failed]) == ()
