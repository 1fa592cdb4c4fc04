"""The requirement lists: pinned, closed, hashed, and bound to no index."""

import re

from infra.sglang_cpu import layout

_PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([A-Za-z0-9_.+]+)")


def _pins(text: str) -> dict[str, str]:
    found = (_PIN.match(line) for line in text.splitlines())
    return {re.sub(r"[-_.]+", "-", pin[1]).lower(): pin[2] for pin in found if pin}


def _asked() -> str:
    return layout.REQUIREMENTS.with_suffix(".in").read_text()


def _locked() -> str:
    return layout.REQUIREMENTS.read_text()


def test_every_asked_line_is_a_pin() -> None:
    lines = [line for line in _asked().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not _PIN.fullmatch(line)] == []


def test_the_locked_list_is_the_asked_one() -> None:
    assert _pins(_locked()) == _pins(_asked())
    assert _pins(_locked())["sglang"] == "0.5.23"


def test_every_locked_pin_carries_a_hash() -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", _locked().strip())
    assert len(entries) == len(_pins(_locked()))
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_torch_and_the_stand_ins_are_not_listed() -> None:
    stand_ins = {path.name.replace("_", "-") for path in layout.STAND_INS.iterdir()}
    assert {"sgl-kernel", "torchvision", "triton"} <= stand_ins
    assert _pins(_locked()).keys().isdisjoint(stand_ins | {"torch"})


def test_no_index_is_named() -> None:
    named = re.compile(r"://|--(extra-)?index|--find-links|(^|\s)-[if]\s")
    assert [line for line in (_asked() + _locked()).splitlines() if named.search(line)] == []
