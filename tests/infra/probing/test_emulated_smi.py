"""An emulated host answers a probe in the driver's own form, and says that it is emulated."""

from pathlib import Path

import pytest

from infra.emulated.smi import main
from infra.probing.links import read_links


def _answer(
    folder: Path, capsys: pytest.CaptureFixture[str], *words: str, truth: str = "M"
) -> tuple[int, str]:
    env = {"EMULATED_HOST_FOLDER": str(folder), "EMULATED_TRUTH": truth, "EMULATED_GPUS": "8"}
    code = main(words, env)
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def test_it_tells_what_joins_its_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = _answer(tmp_path, capsys, "topo", "-m")
    assert code == 0
    links = read_links(text)
    assert links.numa == ("0",) * 4 + ("1",) * 4
    assert links.groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    code, text = _answer(tmp_path, capsys, "topo")
    assert code == 2
    assert "-m" in text


@pytest.mark.parametrize(("truth", "capability"), [("M", "12.0"), ("nvlink", "9.0")])
def test_it_tells_what_its_gpus_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], truth: str, capability: str
) -> None:
    words = ("--query-gpu=index,compute_cap,driver_version,name", "--format=csv,noheader")
    code, text = _answer(tmp_path, capsys, *words, truth=truth)
    assert code == 0
    rows = [line.split(", ") for line in text.splitlines()]
    assert [row[:3] for row in rows] == [[str(n), capability, "emulated"] for n in range(8)]
    assert all(row[3].startswith("EMULATED") for row in rows)
