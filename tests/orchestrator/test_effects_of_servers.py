"""What emulated servers make of their settings, read back, and what a sweep concludes from it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from infra.engines import ENGINES
from infra.sglang.control import ServerControl
from infra.sglang.effective import Account, account, parser_accepts, read_environments
from infra.sglang.logs import ExitReason, explain_exit
from orchestrator.job import Purpose, TrialJob, TrialProgress
from orchestrator.simulation import simulated_tools
from orchestrator.trial import run_trial
from sweeps import Choice
from sweeps.breaker import tripped
from sweeps.closing import closed_values, is_closed
from sweeps.config import Config
from sweeps.effects import Mark, marked_notes, without_effect
from sweeps.hosts import EngineName, HostSpec
from sweeps.launch import Deadlines
from sweeps.pins import adopted_pins, static_pins, with_pins
from sweeps.results import Outcome, TrialResult
from sweeps.sweep import Sweep
from sweeps.values import Value
from tests.infra.emulated.serving import LIMIT_S, Served, serve
from tests.sweeps.makers import SMALL, ngram, plain, result

VERSION = "0.5.23"
HOST = HostSpec(engine=EngineName.EMULATED, version=VERSION)
SWEEP = replace(SMALL, fixed={"tp_size": 8})


def told_by(served: Served, settings: dict[str, Value]) -> Account:
    """Read a running server back."""
    served.wait_ready()
    info = ServerControl(f"http://127.0.0.1:{served.port}").info()
    environments = read_environments(served.process.pid, {}, settings)
    return account(info, settings, VERSION, log=served.log().splitlines(),
                   environments=environments)  # fmt: skip


def run(config: Config, world: str = "", *, sweep: Sweep = SWEEP) -> TrialResult:
    """Start a server with a configuration, and make a result with what it told."""
    settings = {**sweep.settings(config), "model_path": "m"}
    plan = ENGINES[EngineName.EMULATED].plan(settings, HOST, 1, Deadlines())
    words = plan.argv[3 : plan.argv.index("--host")]
    given = {n: str(v) for n, v in config.items() if n.isupper() and v is not None}
    with serve(*words, scale=200.0, port=None, world=world, **given) as served:
        told = told_by(served, settings)
    made = result(0, config, 80.0, purpose="baseline" if config.is_plain else "search")
    return replace(made, effective=told.settings, requested=settings)


@pytest.mark.slow
def test_requested_and_effective_are_both_on_record_and_differ_visibly() -> None:
    unset = run(Config.of({"speculative_algorithm": "NGRAM"}))
    assert unset.effective["speculative_num_draft_tokens"] == 12
    assert marked_notes(unset, None, SWEEP.workload) == ()
    other = run(ngram(8), "[overrides.reported]\nspeculative_num_draft_tokens = 16")
    assert other.requested["speculative_num_draft_tokens"] == 8
    assert other.effective["speculative_num_draft_tokens"] == 16
    [note] = marked_notes(other, None, SWEEP.workload)
    assert note.mark is Mark.EFFECTIVE_MISMATCH
    assert note.text == "speculative_num_draft_tokens is 16 and not 8 as requested"


@pytest.mark.slow
def test_the_hidden_limit_of_speculation_is_seen_and_pins_remove_it() -> None:
    busy = replace(SWEEP, workload=replace(SWEEP.workload, concurrencies=(64,)))
    base, hidden = run(plain()), run(ngram(4))
    assert base.effective["max_running_requests"] == 2048
    assert hidden.effective["max_running_requests"] == 48
    marks = [note.mark for note in marked_notes(hidden, base, busy.workload)]
    assert marks == [Mark.QUEUE_BOUND, Mark.CAPACITY_DIFFERS]

    def accepts(name: str, value: Value) -> bool:
        return parser_accepts(name, value, VERSION)

    pinned = {**static_pins(busy), **adopted_pins(base, busy, accepts)}
    assert {"mem_fraction_static", "attention_backend", "page_size", "chunked_prefill_size",
            "decode_graph_max_batch"} <= pinned.keys()  # fmt: skip
    whole = replace(busy, fixed=with_pins(busy.fixed, pinned))
    again, alike = run(plain(), sweep=whole), run(ngram(4), sweep=whole)
    assert alike.effective["max_running_requests"] == 64
    assert marked_notes(alike, again, busy.workload) == ()
    kept = {name: base.effective[name] for name in pinned if name != "max_running_requests"}
    assert {name: again.effective[name] for name in kept} == kept


@pytest.mark.slow
def test_a_variable_that_the_server_overrides_is_an_axis_without_effect() -> None:
    world = '[overrides.env]\nNCCL_CUMEM_ENABLE = "0"'
    results = [run(plain(NCCL_CUMEM_ENABLE=value), world) for value in (0, 1)]
    [found] = without_effect(results)
    assert str(found) == ("NCCL_CUMEM_ENABLE: no effect on local: overridden; 0 and 1 all run as 0")
    honest = [run(plain(NCCL_CUMEM_ENABLE=value)) for value in (0, 1)]
    assert without_effect(honest) == ()


class _Still:
    def report(self, progress: TrialProgress) -> None: ...

    def order(self) -> None:
        return None


Trial = Callable[[Config], TrialResult]


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """Run trials on emulated servers on a simulated clock, in a world that the test writes."""
    numbers = iter(range(100))
    tools = simulated_tools()

    def one(config: Config) -> TrialResult:
        number = next(numbers)
        folder = tmp_path / str(number)
        folder.mkdir()
        host = replace(HOST, scenario=str(tmp_path / "world.toml"))
        purpose = Purpose.BASELINE if config.is_plain else Purpose.SEARCH
        job = TrialJob(f"t-{number}", "t", number, SWEEP, config, host, folder, purpose)
        return run_trial(job, tools, _Still())

    return one


def test_speculation_that_accepts_nothing_is_marked_inactive(tmp_path: Path, trial: Trial) -> None:
    world = "[overrides.args]\nspeculative_num_draft_tokens = 1"
    (tmp_path / "world.toml").write_text(world)
    made = trial(ngram(4))
    assert made.outcome is Outcome.MEASURED, made.reason
    assert Mark.SPECULATION_INACTIVE in {n.mark for n in marked_notes(made, None, SWEEP.workload)}
    (tmp_path / "world.toml").write_text("")
    healthy = trial(ngram(4))
    marks = {n.mark for n in marked_notes(healthy, None, SWEEP.workload)}
    assert Mark.SPECULATION_INACTIVE not in marks


def test_a_baseline_that_cannot_start_ends_the_sweep(tmp_path: Path, trial: Trial) -> None:
    (tmp_path / "world.toml").write_text("[overrides.args]\nmem_fraction_static = 0.01")
    made = trial(plain())
    assert made.outcome is Outcome.INFEASIBLE, made.reason
    why = tripped([made], ["local"])
    assert why is not None
    assert made.reason in why
    assert "server.log of trial t-0" in why


DYING = '[start]\ndie_in = "graphs"\nlast_line = "AttributeError: \'CustomAllreduce\' object has no'
DYING += " attribute 'buffer_ptrs'\""


def death() -> ExitReason:
    """Start a server that dies at graph capture; return what is made of it."""
    with serve(world=DYING) as served:
        code = served.process.wait(LIMIT_S)
        return explain_exit(code, served.log().splitlines())


def died(number: int, config: Config, why: ExitReason) -> TrialResult:
    """Make the result of a trial that ended so."""
    made = result(number, config, outcome=why.outcome)
    return replace(made, reason=why.reason, signature=why.reason.split(":")[0])


@pytest.mark.slow
def test_three_capture_failures_close_a_value_for_its_host() -> None:
    axis = "disable_custom_all_reduce"
    space = [Choice(axis, [True, False])]
    configs = [plain(**{axis: True}), *(ngram(n, **{axis: False}) for n in (2, 4, 6))]
    good = [
        result(0, configs[0], 80.0, purpose="baseline"),
        result(9, ngram(8, **{axis: True}), 90),
    ]
    why = death()
    bad = [died(i, config, why) for i, config in enumerate(configs[1:], 1)]
    assert all(made.outcome is Outcome.INFEASIBLE for made in bad)
    assert closed_values([*good, *bad[:2]]) == ()
    closed = closed_values([*good, *bad])
    assert [(c.axis, c.value, c.count, c.tried) for c in closed] == [(axis, False, 3, 3)]
    left = [value for value in space[0].values if not is_closed({axis: value}, closed)]
    assert left == [True]
    assert tripped([*good, *bad], ["local"], closed=closed) is None
