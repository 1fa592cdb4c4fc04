"""What is exported of a state folder: which trial, which warnings, what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from infra.sglang.version_range import takes_the_same
from orchestrator.explain import find_trial
from orchestrator.exporting import ExportChoice, Exported, export
from orchestrator.files import write_json
from orchestrator.state import State
from sweeps.exporters.sealed import read_record
from sweeps.hosts import EngineName, HostSpec
from sweeps.problems import BadInputError
from sweeps.quality import Verdict
from sweeps.results import Outcome, TrialResult
from sweeps.search import claims
from sweeps.workloads import Workload
from tests.sweeps.exports import OPTIONS, REAL
from tests.sweeps.makers import estimate, ngram, plain, result, with_argv

pytestmark = pytest.mark.slow

SPACED = {"tp_size": 8, "max_running_requests": 48}
EMULATED = HostSpec("local", engine=EngineName.EMULATED, version="0.5.23")


def _state(root: Path, *results: TrialResult, **card: object) -> State:
    state = State(root)
    state.write_card("t", {"name": "t", "objective": "decode_tok_s", "hosts": [EMULATED.as_data()],
                           "workload": Workload().as_data(), **card})  # fmt: skip
    for one in results:
        folder = state.trial_folder("t", one.number)
        write_json(folder / "result.json", one.as_data())
    return state


def _trial(number: int, rate: float, **changes: object) -> TrialResult:
    config = ngram(number + 1) if number else plain()
    made = with_argv(result(number, config, rate), *REAL, *OPTIONS)
    requested = {**config, **SPACED}
    return replace(made, emulated=False, requested=requested, **changes)  # type: ignore[arg-type] # fields of the result


def _export(state: State, trial: str | None = None, **choice: object) -> Exported:
    made = export(state.root, None, trial, ExportChoice(**choice))  # type: ignore[arg-type] # fields of the choice
    assert made is not None
    return made


def test_the_best_within_the_limits_is_exported_and_explained(tmp_path: Path) -> None:
    slow = {"decode_tok_s": estimate(120), "ttft_p90_ms": estimate(900)}
    fast = {"decode_tok_s": estimate(100), "ttft_p90_ms": estimate(100)}
    limits = [{"metric": "ttft_p90_ms", "most": 500.0, "least": None}]
    state = _state(
        tmp_path, _trial(0, 80, estimates={**fast, "decode_tok_s": estimate(80)}),
        _trial(1, 120, estimates=slow), _trial(2, 100, estimates=fast), limits=limits,
    )  # fmt: skip
    assert read_record(_export(state).text)["trial"] == "t-0002"
    best = find_trial(state, "best", ["t"])
    assert best is not None
    assert best.trial == "t-0002"
    named = _export(state, "t-0001")
    assert read_record(named.text)["trial"] == "t-0001"
    assert any("breaks a limit: ttft_p90_ms is 900 ms" in warning for warning in named.warnings)


def test_warns_of_what_stands_against_it(tmp_path: Path) -> None:
    shaky = {"decode_tok_s": estimate(100, provisional=True)}
    state = _state(
        tmp_path, _trial(0, 80), _trial(1, 100, estimates=shaky, fingerprint="elsewhere"),
        _trial(2, 99.5),
    )  # fmt: skip
    told = "\n".join(_export(state, concurrency=64).warnings)
    for words in ("fingerprint elsewhere, here", "1 more measured within", "is provisional",
                  "flatters", "Provisional, not confirmed",
                  "was not checked", "untested concurrency: 64 at a time, and 1"):  # fmt: skip
        assert words in told
    assert "runs up to 48 requests at a time" in "\n".join(_export(state).warnings)
    calm = _trial(3, 150, purpose="confirm", quality=Verdict.SAME)
    state = _state(tmp_path, calm)
    (said,) = _export(state, concurrency=1).warnings
    assert said.startswith("Provisional: its value comes from one start made after it was chosen")
    state.write_card("t", {**state.card("t"), "claim": _claimed(calm)})
    assert _export(state, concurrency=1).warnings == ()


def _claimed(best: TrialResult) -> dict[str, object]:
    """Return a settled claim, as a card keeps it."""
    gain, verdict = claims.Gain(plain(), 1.25, 1.2, 1.3, (0,)), claims.Verdict.GAIN
    claim = claims.Claim(best.config, (best.config,), gain, verdict, "decided", (0,))
    return claim.as_data([best])


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"outcome": Outcome.HUNG, "reason": "silent in weights"}, "hung: silent in weights"),
     ({"outcome": Outcome.STOPPED}, "stopped"), ({"estimates": {}}, "measured: it was not")],
)  # fmt: skip
def test_a_trial_without_a_figure_is_refused_with_its_reason(
    tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    state = _state(tmp_path, _trial(0, 80), _trial(1, 100, **changes))
    with pytest.raises(BadInputError) as refused:
        _export(state, "1")
    assert says in str(refused.value.problems[0])


def test_a_trial_with_broken_text_says_so(tmp_path: Path) -> None:
    state = _state(tmp_path, _trial(1, 100, quality=Verdict.BROKEN, quality_note="loops"))
    assert "its text is broken: loops" in _export(state, "1").warnings
    assert export(state.root, None, None, ExportChoice()) is None


def test_emulated_figures_need_a_word(tmp_path: Path) -> None:
    state = _state(tmp_path, replace(_trial(0, 80), emulated=True))
    with pytest.raises(BadInputError, match="command line"):
        _export(state)
    assert _export(state, allow_emulated=True).text.splitlines()[1].startswith("# EMULATED")


def test_secrets_are_left_out_and_named(tmp_path: Path) -> None:
    made = _trial(0, 80)
    made = replace(made, env={"HF_TOKEN": "hf_abcdefgh"},
                   argv=(*made.argv, "--api-key", "abcdefgh"))  # fmt: skip
    exported = _export(_state(tmp_path, made))
    assert "abcdefgh" not in exported.text
    assert {"HF_TOKEN is secret and was left out: give it to the server",
            "--api-key is secret and was left out: give it to the server"} <= set(
        exported.warnings)  # fmt: skip


def test_secrets_by_reference_are_named_with_it(tmp_path: Path) -> None:
    made = replace(_trial(0, 80), requested={"api_key": "env:KEY_OF_SERVER"})
    exported = _export(_state(tmp_path, made))
    said = "--api-key is secret and was left out: give it to the server; it was env:KEY_OF_SERVER"
    assert f"{said} here" in exported.warnings


def test_yaml_takes_a_second_file_and_so_no_standard_output(tmp_path: Path) -> None:
    state = _state(tmp_path / "state", replace(_trial(0, 80), env={"A": "b"}))
    exported = _export(state, form="yaml")
    with pytest.raises(BadInputError):
        exported.printable()
    with pytest.raises(BadInputError):
        exported.written(tmp_path / "best.conf")
    paths = exported.written(tmp_path / "best.yaml")
    assert [path.name for path in paths] == ["best.yaml", "best.env"]
    assert "A=b" in paths[1].read_text()
    script = _export(state).written(tmp_path / "serve.sh")[0]
    assert script.stat().st_mode & 0o111


def test_versions_are_those_that_spell_all_options_so() -> None:
    assert takes_the_same({"tp_size": 8}, "0.5.23")[0] == "0.5.2"
    assert takes_the_same({"ngram_match_depth": 8}, "0.5.12") == ("0.5.10", "0.5.23")
    assert takes_the_same({"ngram_match_depth": 8}, "0.5.7") == ("0.5.3", "0.5.9")
    assert takes_the_same({"no_such_flag": 1}, "0.5.20") == ("0.5.20", "0.5.20")
