"""A space file that cannot be swept is refused, naming file, field, value and mend."""

import sys
from pathlib import Path

import pytest

from infra.sglang.probe import missing_sglang
from orchestrator.choices import HostChoice
from orchestrator.space_file import load_sweep, prepare
from sweeps.hosts import EngineName
from sweeps.problems import BadInputError

HEAD = "from sweeps import *\nfrom sweeps import Sweep\n"
AXES = 'axes=[Choice("speculative_algorithm", [None, "NGRAM"])]'


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "space.py"
    path.write_text(text)
    return path


def _refusal(path: Path, engine: EngineName = EngineName.EMULATED) -> BadInputError:
    with pytest.raises(BadInputError) as caught:
        prepare(load_sweep(path), path, HostChoice(engine))
    assert caught.value.source == str(path)
    return caught.value


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("x = 1\n", "sweep", "defines no sweep"),
        ("sweep = 3\n", "sweep", "no Sweep"),
        ("a = 1\nb = a / 0\n", "line 2", "ZeroDivisionError"),
        ("a = (\n", "line 1", "never closed"),
        (HEAD + 'sweep = Sweep(name="s", model=Model("a/b"), axis=[])\n', "line 3", "axis"),
        (HEAD + f'sweep = Sweep(name="s", model=Model("a/b"), {AXES}, fixed={{"tp_sise": 8}})\n',
         "tp_sise", "Did you mean `tp_size`?"),
        (HEAD + f'sweep = Sweep(name="s", model=Model("a/b"), {AXES}, fixed={{"tp_size": 0}})\n',
         "tp_size", "at least 1"),
    ],
)  # fmt: skip
def test_refuses(tmp_path: Path, text: str, field: str, says: str) -> None:
    refusal = _refusal(_file(tmp_path, text))
    problem = next(p for p in refusal.problems if p.field == field)
    assert says in str(problem)


def test_a_file_named_from_another_folder_finds_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaces = tmp_path / "spaces"
    spaces.mkdir()
    (spaces / "neighbour_of_space.py").write_text("GPUS = 4\n")
    text = "from neighbour_of_space import GPUS\n" + HEAD
    _file(spaces, text + f'sweep = Sweep(name="s", model=Model("a/b"), {AXES}, '
          'fixed={"tp_size": GPUS})\n')  # fmt: skip
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert load_sweep(Path("spaces/space.py")).fixed["tp_size"] == 4
    assert sys.path == before


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    _file(tmp_path, "")
    with pytest.raises(BadInputError, match=r"Did you mean `space\.py`"):
        load_sweep(tmp_path / "spaces.py")


def test_sglang_without_gpus_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = _file(tmp_path, HEAD + f'sweep = Sweep(name="s", model=Model("a/b"), {AXES})\n')
    refusal = _refusal(path, EngineName.SGLANG)
    assert "this machine has 0" in str(refusal)
    assert "--engine emulated" in str(refusal)


def test_a_missing_model_and_interpreter_are_refused_for_the_real_engine(tmp_path: Path) -> None:
    host = 'HostSpec("h", engine=EngineName.SGLANG, python="./no-python", gpus=0)'
    text = HEAD + f'sweep = Sweep(name="s", model=Model("./no-model"), {AXES}, hosts=[{host}])\n'
    fields = {p.field for p in _refusal(_file(tmp_path, text), EngineName.AUTO).problems}
    assert fields == {"model.path", "hosts.h.python"}


def test_an_interpreter_without_sglang_is_refused(tmp_path: Path) -> None:
    assert missing_sglang(sys.executable) == "SGLang is not installed for it"
    assert missing_sglang("/bin/false") == "SGLang is not installed for it"
    assert missing_sglang(str(tmp_path)) == "there is no such program"


def test_without_a_gpu_the_default_is_the_emulated_engine(tmp_path: Path) -> None:
    path = _file(tmp_path, HEAD + f'sweep = Sweep(name="s", model=Model("a/b"), {AXES})\n')
    assert prepare(load_sweep(path), path).hosts[0].emulated


def test_a_prompt_file_is_checked_line_by_line_and_then_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    work = 'workload=Workload(prompts="file:asked.jsonl")'
    space = _file(tmp_path, HEAD + f'sweep = Sweep(name="s", model=Model("a/b"), {AXES}, {work})\n')
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(f'"Question {n}?"\n' for n in range(60)) + '{"promt": "x"}\n')
    (problem,) = _refusal(space).problems
    assert problem.field == "workload.prompts"
    assert problem.value.endswith("asked.jsonl line 61")
    assert problem.mend == "Did you mean `prompt`?"
    asked.write_text("".join(f'"Question {n}?"\n' for n in range(60)))
    workload = prepare(load_sweep(space), space, HostChoice(EngineName.EMULATED)).workload
    assert workload.file == asked
    asked.write_text("".join(f'"Query {n}?"\n' for n in range(60)))
    with pytest.raises(BadInputError, match="have changed"):
        workload.measured()
