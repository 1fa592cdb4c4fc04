"""Verifying and comparing on a simulated host: what holds, what does not, and what is refused."""

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from orchestrator import simulation
from orchestrator.choices import Driver
from orchestrator.commands import trial_rows
from orchestrator.exit_codes import DIFFERS, DONE, NO_TRIAL, UNDECIDED
from orchestrator.exporting import ExportChoice, export
from orchestrator.lookup import known_sweep
from orchestrator.proof_page import lines
from orchestrator.proof_plan import ProofChoice
from orchestrator.proofs import Proof
from orchestrator.proving import Proving
from orchestrator.search.given import GivenSearch, GivenTrial
from orchestrator.state import State
from orchestrator.subjects import subject_of
from orchestrator.sweep_run import Attendants, SweepRun
from orchestrator.tracking.jsonl import JsonlTracker
from sweeps.hosts import EngineName, HostSpec
from sweeps.problems import BadInputError
from sweeps.search.steps import Purpose
from sweeps.workloads import Workload
from tests.attacks import attack
from tests.sweeps.makers import SMALL, ngram, plain

pytestmark = pytest.mark.slow

HOST = HostSpec(engine=EngineName.EMULATED, version="0.5.23")
LOAD = Workload(measured_prompts=4, most_measured_prompts=4,
                cold_prompts=1, max_tokens=48, probe_s=5.0, probe_tokens=256,
                warming_prompts=2, warming_passes=1)  # fmt: skip
SWEEP = replace(SMALL, workload=LOAD, hosts=[HOST], early_stopping=False,
                fixed={"tp_size": 8, "api_key": "env:KEY_OF_PROOF"})  # fmt: skip
WIDE = ProofChoice(driver=Driver.SIMULATED, within=0.15)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the state of a sweep, and exports of its trials."""
    root = tmp_path_factory.mktemp("proving")
    state = State(root / "state")
    trials = [GivenTrial("", plain(NCCL_PROTO=None), Purpose.BASELINE)]
    trials += [GivenTrial("", ngram(4, speculative_ngram_max_bfs_breadth=1, NCCL_PROTO=proto))
               for proto in ("LL", None)]  # fmt: skip
    tracker = Attendants(JsonlTracker(root / "events.jsonl"), [])
    run = SweepRun("proved", SWEEP, state, GivenSearch(trials), tracker)
    simulation.drive(run)
    state.write_card("proved", {
        "name": "small", "objective": "decode_tok_s", "workload": LOAD.as_data(),
        "hosts": [HOST.as_data()], "budget": asdict(SWEEP.budget), "zone_fraction": 0.01,
    })  # fmt: skip
    for number, form, name in ((1, "sh", "fast.sh"), (2, "systemd", "slow.service"),
                               (1, "yaml", "fast.yaml"), (1, "json", "fast.json")):  # fmt: skip
        made = export(state.root, "proved", str(number), ExportChoice(form, allow_emulated=True))
        assert made is not None
        made.written(root / name)
    return root


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the key of the server; take back what a command does to the loggers of its process."""
    monkeypatch.setenv("KEY_OF_PROOF", "sesame")
    logs = [logging.getLogger(name) for name in ("orchestrator", "infra", "sweeps")]
    before = [(log, log.level, list(log.handlers), log.propagate) for log in logs]
    yield
    for log, level, handlers, propagate in before:
        for handler in log.handlers:
            if handler not in handlers:
                handler.close()
        log.setLevel(level)
        log.handlers, log.propagate = handlers, propagate


def _prove(root: Path, choice: ProofChoice, *names: str, edited: bool = False) -> Proof:
    state = State(root / "state")
    named = [name if name.isdecimal() else str(root / name) for name in names]
    subjects = [subject_of(name, state, edited=edited) for name in named]
    return Proving(state, subjects, choice).run()


def test_an_export_holds_on_the_host_that_it_was_measured_on(swept: Path) -> None:
    proof = _prove(swept, WIDE, "fast.sh")
    told = list(lines(proof, Path(".sweeps")))
    assert proof.exit_code == DONE, told
    assert told[0] == "EMULATED: it holds within 15 %"
    assert len(proof.rates["fast.sh"]) == 2
    rows = trial_rows(swept / "state", proof.sweep_id)
    assert [row["outcome"] for row in rows] == ["measured"] * 2
    assert rows[0]["config"] == trial_rows(swept / "state", "proved")[1]["config"]
    assert known_sweep(State(swept / "state"), None) == "proved"
    json.dumps(proof.as_data())


def test_started_is_just_what_stands_in_the_file(swept: Path) -> None:
    proof = _prove(swept, replace(WIDE, starts=1), "fast.yaml")
    state = State(swept / "state")
    mine, theirs = state.results(proof.sweep_id)[0], state.results("proved")[1]
    assert sorted(_options(mine.argv)) == sorted(_options(theirs.argv))
    assert mine.env["NCCL_PROTO"] == "LL"


def test_a_key_is_exported_and_started_again_by_its_reference(swept: Path) -> None:
    proof = _prove(swept, replace(WIDE, starts=1), "fast.yaml")
    (made,) = State(swept / "state").results(proof.sweep_id)
    assert made.requested["api_key"] == "env:KEY_OF_PROOF"
    text = (swept / "fast.sh").read_text()
    assert "--api-key is secret and was left out: give it to the server; it was env:KEY_OF_" in text
    assert not [word for word in made.argv if "key" in word]


def _options(argv: tuple[str, ...]) -> list[str]:
    return [word for word in argv[: argv.index("--host")] if word.startswith("--")]


def test_an_edited_file_is_measured_on_demand_only_and_does_not_hold(swept: Path) -> None:
    text = (swept / "fast.sh").read_text()
    (swept / "edited.sh").write_text(text.replace("export NCCL_PROTO=LL\n", ""))
    with pytest.raises(BadInputError) as refused:
        _prove(swept, WIDE, "edited.sh")
    assert "NCCL_PROTO LL is gone" in str(refused.value.problems[0])
    proof = _prove(swept, WIDE, "edited.sh", edited=True)
    assert proof.exit_code == DIFFERS
    answer = next(lines(proof, Path(".sweeps")))
    assert answer.startswith("EMULATED: it does not hold within 15 %: edited.sh is")
    assert "lower than exported" in answer
    assert "edited.sh was edited: NCCL_PROTO LL is gone" in proof.notes


def test_a_yaml_file_without_the_one_beside_it_is_not_whole(swept: Path, tmp_path: Path) -> None:
    (tmp_path / "fast.yaml").write_text((swept / "fast.yaml").read_text())
    with pytest.raises(BadInputError) as refused:
        subject_of(str(tmp_path / "fast.yaml"), State(swept / "state"), edited=False)
    assert "NCCL_PROTO LL is gone" in [p.value for p in refused.value.problems]


def test_changed_evidence_is_named(swept: Path) -> None:
    data = json.loads((swept / "fast.json").read_text())
    (swept / "changed.json").write_text(json.dumps({**data, "value": 2 * data["value"]}))
    with pytest.raises(BadInputError) as refused:
        _prove(swept, WIDE, "changed.json")
    assert [p.value for p in refused.value.problems] == ["its data on `value` were changed"]


def test_a_file_and_a_trial_are_compared_in_turns(swept: Path) -> None:
    proof = _prove(swept, WIDE, "fast.sh", "2")
    assert proof.exit_code == DIFFERS
    assert proof.comparison is not None
    assert proof.comparison.interval[0] > 1.15
    configs = [result.config for result in State(swept / "state").results(proof.sweep_id)]
    assert configs[0] == configs[3] != configs[1] == configs[2]
    assert [config["NCCL_PROTO"] for config in configs] == ["LL", None, None, "LL"]


def test_the_gain_is_judged_with_plain_decode_beside_it(swept: Path) -> None:
    proof = _prove(swept, replace(WIDE, with_plain=True, within=0.2), "fast.sh")
    assert proof.exit_code == DONE
    assert list(proof.rates) == ["fast.sh", "plain decode"]
    told = "\n".join(lines(proof, Path(".sweeps")))
    assert "the gain over plain decode / as exported" in told


def test_a_narrow_zone_stays_undecided_and_says_so_beforehand(swept: Path) -> None:
    state = State(swept / "state")
    subject = subject_of(str(swept / "fast.sh"), state, edited=False)
    proving = Proving(state, [subject], replace(WIDE, within=0.01, starts=1))
    assert "this may end undecided, a wider zone" in proving.forecast
    proof = proving.run()
    assert proof.exit_code == UNDECIDED
    assert "no number of starts would tell" in next(lines(proof, Path(".sweeps")))


def test_the_zone_that_nobody_names_is_one_that_the_starts_can_decide(swept: Path) -> None:
    proof = _prove(swept, replace(WIDE, within=None), "fast.sh")
    assert proof.exit_code == DONE, list(lines(proof, Path(".sweeps")))
    state = State(swept / "state")
    subject = subject_of(str(swept / "fast.sh"), state, edited=False)
    zones = [
        Proving(state, [subject], replace(WIDE, within=None, starts=n)).zone_fraction
        for n in (1, 2, 8)
    ]
    assert zones == sorted(zones, reverse=True)
    assert all(zone >= 0.01 and (zone * 200) == pytest.approx(round(zone * 200)) for zone in zones)
    assert proof.zone_fraction == zones[1]
    told = Proving(state, [subject], replace(WIDE, within=None)).forecast
    assert "the sweep's indifference is 1 %" in told


def test_a_plan_that_cannot_start_has_no_figure(swept: Path) -> None:
    text = (swept / "fast.sh").read_text()
    tight = text.replace("--mem-fraction-static 0.88", "--mem-fraction-static 0.1")
    (swept / "tight.sh").write_text(tight)
    proof = _prove(swept, WIDE, "tight.sh", edited=True)
    assert proof.exit_code == NO_TRIAL
    assert "infeasible" in proof.failures[0]


def test_another_version_or_host_is_said_and_judged_anyway(swept: Path) -> None:
    state = State(swept / "state")
    subject = subject_of(str(swept / "fast.sh"), state, edited=False)
    old = {**subject.record, "engine_version": "0.5.20", "fingerprint": "elsewhere"}
    notes = Proving(state, [replace(subject, record=old)], WIDE).notes
    assert any("and 0.5.20 was measured" in note for note in notes)
    assert any("and elsewhere was measured" in note for note in notes)


@pytest.mark.parametrize(
    ("choice", "field"),
    [(replace(WIDE, host_name="nowhere"), "--host"),
     (replace(WIDE, with_plain=True), "--with-plain")],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_before_a_start(
    swept: Path, choice: ProofChoice, field: str
) -> None:
    state = State(swept / "state")
    subject = subject_of("0", state, edited=False)
    with pytest.raises(BadInputError) as refused:
        Proving(state, [subject], choice)
    assert refused.value.problems[0].field == field


def test_prompts_of_a_file_are_looked_for(swept: Path, tmp_path: Path) -> None:
    subject = subject_of(str(swept / "fast.sh"), State(swept / "state"), edited=False)
    work = {**subject.record["workload"], "prompts": "file:asked.jsonl", "contents": ""}
    moved = replace(subject, record={**subject.record, "workload": work}, folder=tmp_path)
    with pytest.raises(BadInputError) as refused:
        moved.workload(None)
    assert refused.value.problems[0].field == "--prompts"
    (tmp_path / "asked.jsonl").write_text("")
    assert moved.workload(None).file == tmp_path / "asked.jsonl"


def _with(swept: Path, name: str, before: str, *lines: str) -> str:
    text = (swept / "fast.sh").read_text()
    assert before in text
    (swept / name).write_text(text.replace(before, "\n".join([*lines, before])))
    return name


@pytest.mark.parametrize(
    "line",
    ["export HF_TOKEN=$(cat /run/secrets/hf)", "export HF_TOKEN=hf_abcdefgh", "export HF_TOKEN",
     'export HF_TOKEN="$HF_TOKEN"'],
)  # fmt: skip
def test_a_secret_that_the_user_gave_is_no_edit_and_is_not_shown(swept: Path, line: str) -> None:
    name = _with(swept, "secret.sh", "export NCCL_PROTO", line)
    subject = subject_of(str(swept / name), State(swept / "state"), edited=False)
    assert subject.edits == ()
    assert subject.notes == ("HF_TOKEN is secret, and is not taken from the file",)
    assert "HF_TOKEN" not in subject.launch.env
    proof = _prove(swept, WIDE, name)
    told = "\n".join([*lines(proof, Path(".sweeps")), *proof.notes])
    assert proof.exit_code == DONE, told
    assert "HF_TOKEN is secret" in told
    assert "hf_abcdefgh" not in told
    files = [path for path in (swept / "state").rglob("*") if path.is_file()]
    assert not [path for path in files if b"hf_abcdefgh" in path.read_bytes()]


def test_a_secret_option_that_the_user_gave_is_no_edit(swept: Path) -> None:
    text = (swept / "fast.sh").read_text()
    for value in ("k-1234567", '"$API_KEY"'):
        (swept / "key.sh").write_text(text.replace('"$@"', f'--api-key {value} "$@"'))
        subject = subject_of(str(swept / "key.sh"), State(swept / "state"), edited=False)
        assert subject.edits == ()
        assert "--api-key" not in subject.launch.options


@attack("6: a wrapper before the interpreter in a file to verify")
def test_a_wrapper_is_an_edit_and_is_left_out_of_the_starts_here(swept: Path) -> None:
    text = (swept / "fast.sh").read_text()
    (swept / "pinned.sh").write_text(text.replace("exec ", "exec numactl --cpunodebind=0 "))
    with pytest.raises(BadInputError) as refused:
        _prove(swept, WIDE, "pinned.sh")
    assert [p.value for p in refused.value.problems] == [
        "`numactl --cpunodebind=0` stands before the interpreter"
    ]
    assert "add --edited" in refused.value.problems[0].mend
    proof = _prove(swept, WIDE, "pinned.sh", edited=True)
    assert proof.exit_code == DONE
    assert "pinned.sh was edited: `numactl --cpunodebind=0` stands before" in str(proof.notes)
    assert "the starts here leave out what is no option" in str(proof.notes)


@attack("6: pipes, nulls and broken text in a file to verify")
def test_what_cannot_be_known_is_bad_input(swept: Path) -> None:
    hostile = {
        "piped.sh": b"yes | ", "bom.sh": b"\xef\xbb\xbf", "null.sh": b"\x00",
        "code.sh": b"\xff", "quote.sh": b"'",
    }  # fmt: skip
    for name, head in hostile.items():
        text = (swept / "fast.sh").read_bytes()
        (swept / name).write_bytes(text.replace(b"exec ", head + b"exec ", 1))
        with pytest.raises(BadInputError) as refused:
            subject_of(str(swept / name), State(swept / "state"), edited=True)
        assert str(refused.value).replace("\n", "").isprintable(), name
    for data in (b"[" * 100_000, b"{}", b'{"argv": 1, "env": {}, "seal": {}, "format": "json"}'):
        (swept / "data.json").write_bytes(data)
        with pytest.raises(BadInputError, match="cannot be read back"):
            subject_of(str(swept / "data.json"), State(swept / "state"), edited=True)
