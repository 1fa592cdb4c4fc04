"""Exports: each format holds the whole launch unharmed, its evidence, and the word EMULATED."""

import json
import math
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.exporters import EXPORTERS, Launch, Recommendation, written
from sweeps.exporters.env_file import ARGUMENTS, read_variables
from sweeps.exporters.launches import (
    MODULE,
    OF_THE_FILES,
    UnreadableExportError,
    differences,
    edits,
)
from sweeps.exporters.sealed import changed_fields, read_record
from sweeps.exporters.sglang_yaml import NOT_TAKEN
from sweeps.problems import BadInputError
from sweeps.results import TrialResult
from tests.attacks import attack
from tests.sweeps.exports import KEPT, REAL, of_launch, recommended
from tests.sweeps.makers import ngram, result, with_argv
from tests.sweeps.schemas import COMPOSE, DEPLOYMENT, SERVICE

GOLDEN = Path(__file__).parents[1] / "data" / "exports"
LAUNCH = Launch(KEPT, {"NCCL_PROTO": "LL"})

PRINTABLE = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=12)
HOSTILE = st.sampled_from([
    "$HOME", "$(date)", "`id`", "${X}", "$$", "%h", "100%%", 'a"b', "it's", "back\\", "\\n", "",
    " ", ";", "#no comment", "a: b", "- x", "yes", "null", "1_000", "0x10", "1e5", "-1", "*", "{a}",
    "&x", "!tag", "é", "'", "\\$", "!!", "~", "= ", "a\\ b",
])  # fmt: skip
VALUES = st.one_of(HOSTILE, PRINTABLE).filter(lambda v: not v.startswith("--"))
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,8}", fullmatch=True).filter(
    lambda n: n not in {*OF_THE_FILES, "PATH", "PWD", "LD_PRELOAD", "OLDPWD", "OPTIND"}
)  # fmt: skip
OPTION = st.from_regex(r"--[a-z][a-z-]{0,9}", fullmatch=True).filter(
    lambda n: n not in ("--host", "--port", "--nccl-port", "--dist-init-addr")
)
LAUNCHES = st.builds(
    lambda options, env: Launch(
        tuple(w for name, v in options.items() for w in ([name] if v is None else [name, v])), env
    ),
    st.dictionaries(OPTION, st.one_of(st.none(), VALUES), min_size=1, max_size=4),
    st.dictionaries(NAMES, VALUES, max_size=3),
)


@pytest.mark.parametrize("form", EXPORTERS)
def test_is_written_as_agreed(form: str) -> None:
    """Look at what changed, then write the files anew: `python -m tests.sweeps.test_exporters`."""
    what = recommended()
    assert EXPORTERS[form].write(what) == (GOLDEN / f"best.{form}").read_text()
    if (beside := EXPORTERS[form].write_beside) is not None:
        assert beside(what) == (GOLDEN / f"best.{form}.beside").read_text()


@pytest.mark.parametrize("form", EXPORTERS)
@pytest.mark.parametrize("emulated", [True, False])
def test_names_the_winner_and_only_then_emulated(form: str, emulated: bool) -> None:
    text = EXPORTERS[form].write(recommended(emulated=emulated))
    for word in ("NGRAM", "t-0001", "120.0", "1.50 x", "0f1e2d3c4b5a", "it is a test"):
        assert word in text
    assert ("EMULATED" in "\n".join(text.splitlines()[:2])) == emulated
    assert ("EMULATED" in text) == emulated
    assert "31007" not in text
    assert "EMULATED_TRUTH" not in text
    assert "infra.emulated" not in text


@pytest.mark.parametrize("form", EXPORTERS)
def test_carries_its_evidence_under_a_seal(form: str) -> None:
    text = EXPORTERS[form].write(recommended())
    data = read_record(text)
    assert data["format"] == form
    assert data["plan"] == LAUNCH.plan
    assert data["baseline"]["value"] == 80
    assert data["engine_versions"] == ["0.5.3", "0.5.23"]
    assert data["workload"]["concurrencies"] == [4]
    assert changed_fields(data) == ()
    assert changed_fields(read_record(text.replace('"value": 120', '"value": 150'))) == ("value",)


@pytest.mark.parametrize("form", EXPORTERS)
@settings(max_examples=20, deadline=None)
@given(launch=LAUNCHES)
def test_every_launch_can_be_read_back(form: str, launch: Launch) -> None:
    assert list(launch.problems()) == []
    what = of_launch(launch)
    text, beside = written(what, form)
    read = EXPORTERS[form].read(text)
    found = read.launch
    if beside:
        rest = read_variables(beside).launch
        found = Launch((*found.options, *rest.options), rest.env)
    assert found.plan == launch.plan
    assert differences(launch, found) == ()
    if form != "yaml":  # a part of it lies beside
        assert edits(launch, REAL[0], 8, read) == ()


@settings(max_examples=8, deadline=None)
@given(launch=LAUNCHES)
def test_a_shell_makes_the_same_words_of_a_script_and_of_variables(launch: Launch) -> None:
    script = EXPORTERS["sh"].write(of_launch(launch))
    assert _shell(script.replace("exec ", "show ")) == [
        *REAL, *launch.options, "--host", "127.0.0.1", "--port", "30000", *_env(launch),
    ]  # fmt: skip
    variables = EXPORTERS["env"].write(of_launch(launch))
    run = f'set -a\n{variables}\neval "show ${ARGUMENTS}"\n'
    assert _shell(run) == [*launch.options, *_env(launch)]


def _env(launch: Launch) -> list[str]:
    return [launch.env[name] for name in sorted(launch.env)]


def _shell(script: str) -> list[str]:
    """Run a script in which `show` stands for the server; return its words, then the variables."""
    names = sorted(read_record(script)["env"])
    shown = "".join(f' "${name}"' for name in names)
    show = f"show() {{ printf '%s\\n' \"$@\"{shown}; }}\n"
    done = subprocess.run(
        ["/bin/sh", "-c", show + script],
        capture_output=True, text=True, check=True, timeout=30, env={},
    )  # fmt: skip
    return done.stdout.split("\n")[:-1]


@settings(max_examples=20, deadline=None)
@given(value=VALUES)
def test_what_starts_containers_replaces_nothing(value: str) -> None:
    """Both leave a text alone in which every dollar is doubled, and double it back."""
    what = of_launch(Launch(("--x", value), {"Y": value}))
    service = next(
        iter(yaml.safe_load(EXPORTERS["docker-compose"].write(what))["services"].values())
    )
    deployment = next(yaml.safe_load_all(EXPORTERS["kubernetes"].write(what)))
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    written = [service["command"][4], service["environment"]["Y"], container["command"][4],
               container["env"][0]["value"]]  # fmt: skip
    assert written == [value.replace("$", "$$")] * 4


@pytest.mark.parametrize("value", ["a\nb", "\x00", "\x85", "\ud800"])
def test_what_no_file_carries_is_refused(value: str) -> None:
    assert [p.field for p in Launch(("--x", value), {"Y": value}).problems()] == ["env.Y", "argv"]
    assert [p.field for p in Launch((), {"no name": ""}).problems()] == ["env"]


def test_yaml_holds_numbers_as_numbers_and_leaves_to_a_second_file_what_sglang_refuses() -> None:
    what = recommended()
    assert yaml.safe_load(EXPORTERS["yaml"].write(what)) == {
        "model-path": "/models/it's a model", "trust-remote-code": True, "tp-size": 8,
        "mem-fraction-static": 0.88,
    }  # fmt: skip
    assert "--disable-cuda-graph" in NOT_TAKEN
    beside = EXPORTERS["yaml"].write_beside
    assert beside is not None
    rest = read_variables(beside(what)).launch
    assert rest == Launch(("--disable-cuda-graph",), {"NCCL_PROTO": "LL"})


def test_objects_for_containers_have_the_fields_that_their_schemas_know() -> None:
    deployment, service = yaml.safe_load_all(EXPORTERS["kubernetes"].write(recommended()))
    jsonschema.validate(deployment, DEPLOYMENT)
    jsonschema.validate(service, SERVICE)
    compose = yaml.safe_load(EXPORTERS["docker-compose"].write(recommended()))
    jsonschema.validate(compose, COMPOSE)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 900
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize(
    ("form", "broken"),
    [("sh", "echo"), ("env", "A=1"), ("systemd", "[Service]"), ("yaml", "- a"), ("json", "{}"),
     ("docker-compose", "services: {}"), ("kubernetes", "kind: Pod")],
)  # fmt: skip
def test_another_file_is_no_export(form: str, broken: str) -> None:
    with pytest.raises(UnreadableExportError):
        EXPORTERS[form].read(broken)
    with pytest.raises(UnreadableExportError):
        read_record(broken)


def test_an_edited_option_is_named() -> None:
    text = EXPORTERS["sh"].write(recommended())
    edited = text.replace("--tp-size 8", "--tp-size 4").replace("NCCL_PROTO=LL", "NCCL_ALGO=Tree")
    assert differences(LAUNCH, EXPORTERS["sh"].read(edited).launch) == (
        "--tp-size is 4 and not 8", "NCCL_PROTO LL is gone", "NCCL_ALGO Tree was added",
    )  # fmt: skip


def test_json_holds_a_command_that_can_be_run() -> None:
    data = json.loads(EXPORTERS["json"].write(recommended()))
    assert data["argv"] == [*REAL, *KEPT]
    assert data["env"] == {"NCCL_PROTO": "LL"}
    assert data["value"] == 120


def test_the_script_passes_words_and_environment_on_unharmed(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(EXPORTERS["sh"].write(recommended()))
    show = tmp_path / "show"
    show.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\necho "$NCCL_PROTO"\n')
    show.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "PYTHON": str(show), "PORT": "40000"}
    done = subprocess.run(
        ["/bin/sh", str(script), "--extra", "two words"],
        env=env, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        *REAL[1:], *KEPT, "--host", "127.0.0.1", "--port", "40000", "--extra", "two words", "LL",
    ]  # fmt: skip


ODD = of_launch(Launch(("--x", '$a `b` %c "d" it\'s \\', "--y"), {"A": '$a %b "c" \\'}))


@pytest.mark.slow
@pytest.mark.parametrize("what", [recommended(), ODD])
def test_shellcheck_finds_no_fault(what: Recommendation, tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(EXPORTERS["sh"].write(what))
    # What looks like an expansion or an escape within single quotes is meant as text.
    _checked("shellcheck", "-s", "sh", "-e", "SC2016,SC1003", str(script))


@pytest.mark.slow
@pytest.mark.parametrize("what", [recommended(), ODD])
def test_systemd_accepts_the_unit(what: Recommendation, tmp_path: Path) -> None:
    unit = tmp_path / "serve.service"
    text = EXPORTERS["systemd"].write(what)
    unit.write_text(text.replace(f'"{REAL[0]}"', "/bin/true"))
    _checked("systemd-analyze", "verify", "--man=no", str(unit))


def _checked(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_how_sure_the_sweep_is_stands_in_every_format() -> None:
    said = "Undecided: the fresh starts do not decide it."
    what = replace(recommended(), certainty="undecided", warnings=(said,), sure=(said,))
    for form in EXPORTERS.values():
        text = form.write(what)
        assert "undecided" in text
        assert said in text


def test_a_result_survives_its_file_form() -> None:
    made = with_argv(result(1, ngram(4), 120), "python", "-m", "x", A="b")
    assert TrialResult.from_data(json.loads(json.dumps(made.as_data()))) == made


EVIL = "0.5.23\nrm -rf /"


@attack("6: line ends, `;` and shells in the fields that an export writes")
@pytest.mark.parametrize("form", EXPORTERS)
@pytest.mark.parametrize(
    ("attack", "field"),
    [
        (lambda what: replace(what, trial=replace(what.trial, engine_version=EVIL)),
         "engine_version"),
        (lambda what: replace(what, trial=replace(what.trial, engine_version="; id")),
         "engine_version"),
        (lambda what: replace(what, trial=replace(what.trial, sweep="a\u2028id")), "sweep"),
        (lambda what: replace(what, trial=replace(what.trial, trial="t\rid")), "trial"),
        (lambda what: replace(what, trial=replace(what.trial, host="h\x85id")), "host"),
        (lambda what: replace(what, trial=replace(what.trial, fingerprint="\x1b[2J")),
         "fingerprint"),
        (lambda what: replace(what, image="a\nprivileged: true"), "image"),
        (lambda what: replace(what, program=("/bin/sh", "-c", "id")), "argv"),
        (lambda what: replace(what, program=("/bin/sh\nid", "-m", MODULE)), "argv"),
        (lambda what: replace(what, program=("-c", "-m", MODULE)), "argv"),
        (lambda what: replace(what, program=("A=b", "-m", MODULE)), "argv"),
        (lambda what: replace(what, program=("python3", "-m", "http.server")), "argv"),
        (lambda what: replace(what, program=("python3", "-m", MODULE, "x")), "argv"),
        (lambda what: replace(what, launch=Launch((), {"A;id;B": "x"})), "env"),
        (lambda what: replace(what, launch=Launch((), {"A\nid": "x"})), "env"),
        (lambda what: replace(what, launch=Launch((), {"PYTHON": "/tmp/evil"})), "env"),
        (lambda what: replace(what, launch=Launch((), {"BASH_ENV": "/tmp/evil"})), "env"),
        (lambda what: replace(what, launch=Launch((), {"A": "x\nid"})), "env.A"),
        (lambda what: replace(what, launch=Launch(("id",))), "argv"),
        (lambda what: replace(what, launch=Launch(("--x;id", "1"))), "argv"),
        (lambda what: replace(what, launch=Launch(("--x", "1\n2"))), "argv"),
        (lambda what: replace(what, origin=replace(what.origin, host={"gpus": "8\nid"})),
         "host.gpus"),
        (lambda what: replace(what, origin=replace(what.origin, budget={"start_s": math.inf})),
         "budget.start_s"),
        (lambda what: replace(what, origin=replace(what.origin, budget={"stop_grace_s": math.nan})),
         "budget.stop_grace_s"),
    ],
)  # fmt: skip
def test_a_field_of_a_result_becomes_no_line_of_a_file(
    form: str, attack: Callable[[Recommendation], Recommendation], field: str
) -> None:
    with pytest.raises(BadInputError) as refused:
        written(attack(recommended()), form)
    assert field in [problem.field for problem in refused.value.problems]
    assert all(line.isprintable() for line in str(refused.value).split("\n"))


@attack("6: line ends and escape sequences in the notes of an export")
@pytest.mark.parametrize("form", EXPORTERS)
def test_hostile_text_of_a_note_stays_in_its_comment(form: str) -> None:
    hostile = "x\nid\rid\u2028id\x1b[2J\x00 EOF"
    what = replace(recommended(), warnings=(hostile,), chosen={f"a{hostile}": hostile},
                   metric=hostile, unit=hostile)  # fmt: skip
    text, beside = written(what, form)
    assert all(line.isprintable() for line in f"{text}{beside}".split("\n"))
    assert not [line for line in text.split("\n") if line.lstrip().startswith("id")]
    assert EXPORTERS[form].read(text).launch.grouped[0] == KEPT[:2]


def test_texts_that_look_like_numbers_are_quoted_for_every_program() -> None:
    """PyYAML writes 1e5 without quotes, which kubectl takes for a number and then refuses."""
    env = {"A": "1e5", "B": "y", "C": "0o17", "D": "1_000", "E": "0x1F", "F": ".5", "G": "on"}
    for form in ("docker-compose", "kubernetes"):
        text, _ = written(of_launch(Launch(KEPT, env)), form)
        assert EXPORTERS[form].read(text).launch == Launch(KEPT, env)
        for value in env.values():
            assert f": '{value}'\n" in text


def _write_golden() -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    what: Any = recommended()
    for form, row in EXPORTERS.items():
        (GOLDEN / f"best.{form}").write_text(row.write(what))
        if row.write_beside is not None:
            (GOLDEN / f"best.{form}.beside").write_text(row.write_beside(what))


if __name__ == "__main__":
    _write_golden()


def test_a_quoted_semicolon_is_a_word_of_a_unit_and_a_bare_one_parts_commands() -> None:
    unit = "[Service]\nExecStart=/opt/bin/python -m sglang.launch_server --a {}\n"
    assert EXPORTERS["systemd"].read(unit.format('";"')).launch.options[-2:] == ("--a", ";")
    with pytest.raises(UnreadableExportError, match="several commands"):
        EXPORTERS["systemd"].read(unit.format("1 ; /bin/true"))
