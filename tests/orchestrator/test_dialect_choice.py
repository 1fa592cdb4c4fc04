"""The API that a sweep is measured through: chosen by version, refused, recorded and kept."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.continuing import Wish, choose, keeping_load, known_definition
from orchestrator.dialect_choice import dialect_notes, with_dialect
from orchestrator.simulation import simulated_tools
from orchestrator.space_file import prepare
from orchestrator.state import State
from orchestrator.trial import run_trial
from sweeps.definition import definition
from sweeps.hosts import EngineName, HostSpec
from sweeps.problems import BadInputError
from sweeps.results import Outcome
from sweeps.sweep import Sweep
from sweeps.workloads import Workload
from tests.orchestrator.running import sweep_run
from tests.orchestrator.test_simulation import SWEEP, Follower
from tests.sweeps.makers import SMALL

FILE = Path("small.py")


def on(*versions: str, workload: Workload | None = None, sweep: Sweep = SMALL) -> Sweep:
    """Return a sweep as it is prepared for emulated hosts of some versions."""
    hosts = [
        HostSpec(name=f"h{place}", engine=EngineName.EMULATED, version=version)
        for place, version in enumerate(versions)
    ]
    work = workload or sweep.workload
    return prepare(replace(sweep, hosts=hosts, workload=work), FILE)


@pytest.mark.parametrize(
    ("versions", "dialect"),
    [
        (("0.5.4",), "generate"),
        (("0.5.10",), "generate"),  # chat counts, but tells no verify steps
        (("0.5.19",), "chat"),
        (("0.5.23",), "chat"),
        (("0.5.23", "0.5.4"), "generate"),
    ],
)
def test_the_api_is_chosen_by_what_all_hosts_have(versions: tuple[str, ...], dialect: str) -> None:
    settled = on(*versions)
    assert settled.workload.dialect == dialect
    assert definition(settled)["workload"]["dialect"] == dialect  # type: ignore[index] # plain data
    assert bool(dialect_notes(settled)) is (dialect == "generate")
    named = Workload.from_data(json.loads(json.dumps(settled.workload.as_data())))
    assert named.dialect == dialect
    assert not named.leaves_dialect_open, "what is on record is no longer open"
    assert named.key == settled.workload.key


def test_another_api_is_another_measurement() -> None:
    assert on("0.5.4").workload.key != on("0.5.23").workload.key
    assert on("0.5.23").workload.key == Workload.from_data(on("0.5.23").workload.as_data()).key


def test_an_api_that_somebody_named_is_used_or_refused() -> None:
    named = replace(SMALL.workload, dialect="chat")
    with pytest.raises(BadInputError) as refused:
        on("0.5.4", workload=named)
    [problem] = refused.value.problems
    assert "continuous_usage_stats (from 0.5.5)" in str(problem)
    assert on("0.5.4", workload=replace(named, dialect="generate")).workload.dialect == "generate"
    told = on("0.5.10", workload=named)
    assert told.workload.dialect == "chat"
    assert "accept lengths stay unknown" in dialect_notes(told)[0]
    assert "`generate` tells them" in dialect_notes(told)[0]


def test_a_resume_keeps_the_api_that_the_sweep_began_with(tmp_path: Path) -> None:
    state, began = State(tmp_path), on("0.5.10", workload=replace(SMALL.workload, dialect="chat"))
    card = {"name": "small", "key": began.key, "file": str(FILE.absolute()), "status": "running"}
    state.write_card("s1", {**card, "definition": known_definition(began)})
    now = on("0.5.10")
    assert now.workload.dialect == "generate"
    kept = keeping_load(state, now, FILE, Wish.AUTO)
    assert kept.workload.dialect == "chat"
    assert choose(state, kept, FILE, Wish.AUTO, {}).sweep_id == "s1"
    with pytest.raises(BadInputError, match="incomparable"):
        choose(state, now, FILE, Wish.AUTO, {})
    assert keeping_load(state, now, FILE, Wish.NEW).workload.dialect == "generate"
    lost = on("0.5.4")
    assert keeping_load(state, lost, FILE, Wish.AUTO).workload.dialect == "generate"


def test_only_drafts_need_verify_steps() -> None:
    plain = replace(SMALL, axes=[a for a in SMALL.axes if a.name.startswith("NCCL")], rules=[])
    chosen, problems = with_dialect(replace(plain, hosts=[HostSpec(version="0.5.10")]))
    assert (chosen.workload.dialect, problems) == ("chat", [])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "dialect", "tells_length"),
    [
        ("0.5.4", "generate", True),
        ("0.5.10", "chat", False),
        ("0.5.10", "generate", True),
        ("0.5.23", "chat", True),
    ],
)
def test_simulated_servers_tell_no_more_than_their_version(
    tmp_path: Path, version: str, dialect: str, *, tells_length: bool
) -> None:
    host = HostSpec(engine=EngineName.EMULATED, version=version)
    workload = replace(SWEEP.workload, dialect=dialect)
    run = sweep_run(replace(SWEEP, hosts=[host], workload=workload), tmp_path)
    job = run.next_job(host)
    assert job is not None
    config = type(job.config).of({"speculative_algorithm": "NGRAM"})
    ended = run_trial(replace(job, config=config), simulated_tools(), Follower())
    assert ended.outcome is Outcome.MEASURED, ended.reason
    assert ("accept_length" in ended.estimates) is tells_length
