"""`hosts check` and `hosts trust` over a real network: what a person and a script are told."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.emulated.life.host_folder import Holding, HostFolder
from infra.host_lock import host_lock
from infra.process_id import started_ticks
from orchestrator.cli import app
from orchestrator.exit_codes import BAD_INPUT, DONE, NOT_READY
from orchestrator.hosts.reaching import in_parallel
from tests.infra.ssh.lan import Lan, make_key

pytestmark = pytest.mark.slow


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run a command as a user types it; return its code and what it printed."""
    with pytest.raises(SystemExit) as ended:
        app(["hosts", *words])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


def test_equal_hosts_are_ready_and_one_behind_a_bastion_too(
    lan: Lan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = str(lan.write_inventory(tmp_path / "hosts.toml"))
    code, page, _ = run(capsys, "check", "gpu1", "inner", "--inventory", inventory)
    assert code == DONE, page
    assert page.startswith("EMULATED host gpu1: ready")
    assert "EMULATED host inner: ready" in page
    assert "the rest     as on gpu1" in page
    assert "GPUs 0-3 | 4-7 lie on different NUMA nodes" in page
    assert "none in what may change results" in page
    assert page.rstrip().endswith("2 of 2 hosts are ready")


def test_what_stands_in_the_way_is_told_host_by_host(
    lan: Lan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, three = lan.gpu_hosts
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights").write_bytes(b"x" * 5_000_000)
    inventory = tmp_path / "hosts.toml"
    models = [str(tmp_path / "model")]
    tables = [
        one.table(models=models, truth="nvlink", env={"NCCL_PROTO": "LL"}),
        two.table(models=[*models, "/no/model"]),
        # An interpreter without ours: what .bashrc would have put on the PATH is not seen.
        three.table(python=f"{three.home}/conda/bin/python", models=models),
        three.table(port=2023).replace("hosts.gpu3", "hosts.gone"),
    ]
    inventory.write_text("\n".join(tables))
    (three.home / ".bashrc").write_text("case $- in *i*) ;; *) return;; esac\nexport PATH=/x\n")
    folder = HostFolder(Path(two.entry().folder) / "probe")
    folder.hold(Holding(os.getpid(), started_ticks(os.getpid()) or 0, 3, 2**34))
    code, text, _ = run(capsys, "check", "--inventory", str(inventory), "--json")
    assert code == NOT_READY
    data = json.loads(text)
    by_name = {host["host"]: host for host in data["hosts"]}
    assert {name: host["ready"] for name, host in by_name.items()} == {
        "gpu1": True, "gpu2": False, "gpu3": False, "gone": False,
    }  # fmt: skip
    assert "cannot be reached" in by_name["gone"]["trouble"]
    assert by_name["gpu1"]["models"] == [{"path": models[0], "size_bytes": 5_000_000}]
    told = {name: _told(host) for name, host in by_name.items()}
    assert "there is no folder /no/model" in told["gpu2"]
    assert "GPU 3" in told["gpu2"]
    assert "no login shell runs there" in told["gpu3"]
    assert "hosts prepare gpu3" in told["gpu3"]
    # Without ours, the driver and /proc still answer.
    facts = by_name["gpu3"]["facts"]
    assert len(facts["gpus"]) == 8
    assert facts["room"]["ram_total_bytes"] > 0
    assert facts["room"]["model_bytes"] >= 5_000_000
    assert facts["links"]["paths"]
    differing = {one["fact"]: one["values"] for one in data["differences"]}
    assert {"machine", "GPUs", "links", "env in the inventory"} <= differing.keys()
    assert {value["value"] for value in differing["machine"]} == {"nvlink", "M"}
    assert "kernel" not in differing


def _told(host: Mapping[str, object]) -> str:
    return json.dumps(host.get("findings", []))


def test_a_gpu_that_another_sweep_has_is_told_with_its_owner(
    lan: Lan, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lan["gpu1"]
    inventory = str(lan.write_inventory(tmp_path / "hosts.toml"))
    monkeypatch.setenv("ORCH_RUNTIME_DIR", str(node.runtime))
    with host_lock(["GPU-x"], "sweep theirs, process 1 of them"):
        code, page, _ = run(capsys, "check", "gpu1", "--inventory", inventory)
    assert code == NOT_READY
    assert "in use: GPU-x: sweep theirs, process 1 of them, since 20" in " ".join(page.split())


def test_a_host_that_hangs_costs_its_own_deadline_only() -> None:
    asked, answers = threading.Event(), threading.Event()

    def slow() -> str:
        asked.set()
        answers.wait()
        return "b"

    try:
        found = in_parallel([lambda: "a", slow], ["late", "late"], 1.0)
        assert asked.is_set(), "nobody waited for its answer"
    finally:
        answers.set()
    assert found == ["a", "late"]


def test_bad_input_is_told_before_any_host_is_asked(
    lan: Lan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = tmp_path / "hosts.toml"
    assert run(capsys, "check", "--inventory", str(inventory))[0] == BAD_INPUT
    lan.write_inventory(inventory)
    code, _, told = run(capsys, "check", "gpu9", "--inventory", str(inventory))
    assert code == BAD_INPUT
    assert "Did you mean `gpu" in told


@contextmanager
def new_known_hosts(lan: Lan, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Lend an empty file of known hosts, and an inventory that uses it."""
    known = tmp_path / "known/hosts"
    inventory = tmp_path / "hosts.toml"
    inventory.write_text(lan["gpu3"].table(known_hosts=str(known)))
    yield known, str(inventory)


def test_a_key_is_added_when_its_fingerprint_was_expected(
    lan: Lan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with new_known_hosts(lan, tmp_path) as (known, inventory):
        code, page, _ = run(capsys, "check", "gpu3", "--inventory", inventory)
        assert code == NOT_READY
        assert "`orchestrator hosts trust gpu3` adds it" in " ".join(page.split())
        code, _, told = run(capsys, "trust", "gpu3", "--inventory", inventory)
        assert code == NOT_READY
        assert "Nobody is here to confirm that" in told
        fingerprint = next(word for word in told.split() if word.startswith("SHA256:")).rstrip(".")
        wrong = ("--yes", "SHA256:wrong")
        code, _, told = run(capsys, "trust", "gpu3", "--inventory", inventory, *wrong)
        assert (code, "SHA256:wrong was expected" in told) == (NOT_READY, True)
        assert not known.exists()
        good = ("--yes", fingerprint)
        code, told, _ = run(capsys, "trust", "gpu3", "--inventory", inventory, *good)
        assert (code, "is trusted from now on" in told) == (DONE, True)
        code, told, _ = run(capsys, "trust", "gpu3", "--inventory", inventory)
        assert (code, "is known already" in told) == (DONE, True)


def test_a_changed_key_is_never_added(
    lan: Lan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with new_known_hosts(lan, tmp_path) as (known, inventory):
        other = (make_key(tmp_path / "other").parent / "other.pub").read_text()
        known.parent.mkdir()
        known.write_text(f"[{lan['gpu3'].address}]:2022 {other}")
        for words in ((), ("--yes", "SHA256:any")):
            code, _, told = run(capsys, "trust", "gpu3", "--inventory", inventory, *words)
            assert code == NOT_READY
            assert "another key than before" in told
        assert known.read_text().count("\n") == 1


def test_help_and_bad_files_need_no_connection(tmp_path: Path) -> None:
    program = (
        "import sys; from orchestrator.cli import app\n"
        "try: app(['hosts', 'check', '--help'])\n"
        "except SystemExit as e: assert not e.code, e.code\n"
        "assert not {'paramiko', 'psutil', 'rich.console', 'cryptography'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=60,
                   stdout=subprocess.DEVNULL)  # fmt: skip
