"""A host is held against a sweep before anything starts, and the page says what it means."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from infra.emulated.life.host_folder import Holding, HostFolder
from infra.local_host import LocalHost
from infra.probing.facts import GpuFacts, HostFacts, Iommu, NcclFile, Room, Software, System
from infra.probing.links import Links
from infra.process_id import started_ticks
from orchestrator.choices import AS_WRITTEN
from orchestrator.cli import app
from orchestrator.exit_codes import BAD_INPUT, DONE, NOT_READY, worst
from orchestrator.host_check import HostCheck, check_hosts, expression_problems, load_probed
from orchestrator.host_findings import Weight, findings, meanings
from orchestrator.host_page import headline, page_lines
from orchestrator.space_file import load_sweep
from orchestrator.state import State
from sweeps.problems import BadInputError, Problem
from tests.infra.probing.stand_ins import Machine, make_machine, square

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WINDOW = "speculative_ngram_max_match_window_size"
BRANCH = "speculative_ngram_branch_length"
DEPTH = "speculative_ngram_max_trie_depth"
NEUTRAL = "ngram_match_depth"


def _space(folder: Path, axis: str, hosts: str, fixed: str = "") -> Path:
    path = folder / "space.py"
    path.write_text(
        "from sweeps import *\n"
        'sweep = Sweep(name="s", model=Model("a/b"), axes=[\n'
        '    Choice("speculative_algorithm", [None, "NGRAM"]),\n'
        f'    IntRange("{axis}", 4, 12, {{"speculative_algorithm": "NGRAM"}})],\n'
        f'    fixed={{"tp_size": 8, {fixed}}}, hosts=[{hosts}])\n'
    )
    return path


def _emulated(*versions: str) -> str:
    hosts = (f'HostSpec("h{v}", engine=EngineName.EMULATED, version="{v}")' for v in versions)
    return ", ".join(hosts)


@pytest.fixture
def state(tmp_path: Path) -> State:
    """Return a state folder in which nothing was swept."""
    return State(tmp_path / "state")


@pytest.mark.parametrize(
    ("axis", "version", "here"), [(DEPTH, "0.5.9", BRANCH), (WINDOW, "0.5.23", DEPTH)]
)
def test_an_axis_that_the_host_lacks_stops_the_sweep_before_trial_1(
    tmp_path: Path, state: State, axis: str, version: str, here: str
) -> None:
    path = _space(tmp_path, axis, _emulated(version))
    with pytest.raises(BadInputError) as caught:
        load_probed(path, AS_WRITTEN, state)
    (problem,) = caught.value.problems
    assert problem.field == axis
    assert f"SGLang {version}" in problem.why
    assert f"`{here}`" in problem.mend
    assert f"`{NEUTRAL}`" in problem.mend
    assert state.sweep_ids() == []
    (check,) = check_hosts(path, None, AS_WRITTEN, state)
    assert check.problems == (problem,)
    assert check.exit_code == BAD_INPUT


def test_a_neutral_axis_holds_on_hosts_of_any_version(tmp_path: Path, state: State) -> None:
    path = _space(tmp_path, NEUTRAL, _emulated("0.5.9", "0.5.23"))
    sweep, facts = load_probed(path, AS_WRITTEN, state)
    assert [host.version for host in sweep.hosts] == ["0.5.9", "0.5.23"]
    assert facts.keys() == {"h0.5.9", "h0.5.23"}
    assert len({found.fingerprint for found in facts.values()}) == 2
    (check,) = check_hosts(path, "h0.5.9", AS_WRITTEN, state)
    assert (check.facts.host, check.problems) == ("h0.5.9", ())


@pytest.mark.parametrize(("truth", "inert"), [("M", ["disable_custom_all_reduce"]), ("nvlink", [])])
def test_axes_without_effect_are_named_for_the_machine(
    tmp_path: Path, state: State, truth: str, inert: list[str]
) -> None:
    path = _space(tmp_path, NEUTRAL, f'HostSpec("e", engine=EngineName.EMULATED, truth="{truth}")')
    axis = 'axes=[Choice("disable_custom_all_reduce", [False, True]),'
    path.write_text(path.read_text().replace("axes=[", axis))
    (check,) = check_hosts(path, None, AS_WRITTEN, state)
    assert [name for name, _ in check.inert] == inert


def _real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, flags: Sequence[str]
) -> tuple[Machine, str]:
    """Install an SGLang, and return the host that it is on as a space file names it."""
    machine = make_machine(tmp_path / "machine")
    machine.install_sglang(version, [f"--{flag.replace('_', '-')}" for flag in flags])
    monkeypatch.setenv("PATH", f"{machine.folder / 'bin'}:{os.environ['PATH']}")
    python = machine.folder / "bin/python"
    return machine, f'HostSpec("r", engine=EngineName.SGLANG, gpus=0, python="{python}"{{}})'


def test_the_installed_version_decides_where_none_is_named(
    tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("tp_size", "model_path", "speculative_algorithm", WINDOW)
    _, host = _real(tmp_path, monkeypatch, "0.5.9", flags)
    path = _space(tmp_path, WINDOW, host.format(""))
    sweep, facts = load_probed(path, AS_WRITTEN, state)
    assert sweep.hosts[0].version == facts["r"].version == "0.5.9"

    path = _space(tmp_path, WINDOW, host.format(', version="0.5.8"'))
    with pytest.raises(BadInputError) as caught:
        load_probed(path, AS_WRITTEN, state)
    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == ("hosts.r.version", "0.5.8")
    assert "0.5.9 is installed" in problem.why


def test_a_flag_that_the_help_lacks_is_refused_whatever_the_table_has(
    tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("tp_size", "model_path", "speculative_algorithm", DEPTH, "page_size_now")
    _, host = _real(tmp_path, monkeypatch, "0.5.23", flags)
    path = _space(tmp_path, DEPTH, host.format(""), fixed='"page_size": 1')
    (check,) = check_hosts(path, None, AS_WRITTEN, state)
    (problem,) = check.problems
    assert (problem.field, problem.value) == ("page_size", "1")
    assert problem.why == "SGLang 0.5.23 of this host has no --page-size"
    assert "`page_size_now`" in problem.mend


def test_a_host_without_sglang_is_refused_for_that_alone(
    tmp_path: Path, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, host = _real(tmp_path, monkeypatch, "0.5.9", ())
    machine.install_program("python", f'exec "{sys.executable}" "$@"\n')
    path = _space(tmp_path, DEPTH, host.format(', version="0.5.23"'))
    (check,) = check_hosts(path, None, AS_WRITTEN, state)
    assert [problem.field for problem in check.problems] == ["hosts.r.python"]
    assert "not installed" in "\n".join(line for line, _ in page_lines(check, 100))


def test_a_host_that_is_not_there_names_its_neighbour(tmp_path: Path, state: State) -> None:
    path = _space(tmp_path, DEPTH, _emulated("0.5.23"))
    with pytest.raises(BadInputError, match=r"Did you mean `h0\.5\.23`"):
        check_hosts(path, "h0.5.22", AS_WRITTEN, state)
    outside = _space(tmp_path, DEPTH, 'HostSpec("../x", engine=EngineName.EMULATED)')
    with pytest.raises(BadInputError, match=r"hosts\.name"):
        check_hosts(outside, None, AS_WRITTEN, state)


PLENTY = Room(2**40, 2**39, 2**35, 2**35, 2**40)
PCIE = HostFacts(
    "p",
    software=Software("/py", "3.12", "0.5.23", (), "2.27.3", ("tp_size",)),
    gpus=tuple(GpuFacts(index, f"GPU-{index}", "X", 2**36, 2**20, (9, 0)) for index in range(8)),
    links=Links(tuple(map(tuple, square(8, "SYS", "PHB", group=4))), ("0",) * 4 + ("1",) * 4),
    driver_version="570",
    system=System("6.8", "EPYC", 64, 2, Iommu.OFF, 0),
    room=PLENTY,
)
NGRAM = {"speculative_algorithm": (None, "NGRAM"), "tp_size": (8,), "NCCL_P2P_LEVEL": (None, "SYS")}


def test_a_free_machine_has_nothing_to_say_against_it() -> None:
    assert findings(PCIE, NGRAM) == ()


@pytest.mark.parametrize(
    ("facts", "weight", "subject", "says"),
    [
        (replace(PCIE, gpus=(replace(PCIE.gpus[0], memory_used_bytes=2**33), *PCIE.gpus[1:])),
         Weight.WAITS, "GPU 0", "no process that is visible"),
        (replace(PCIE, room=replace(PLENTY, disk_free_bytes=2**20)), Weight.WAITS, "disk", "1 MiB"),
        (replace(PCIE, room=replace(PLENTY, shm_free_bytes=2**26)), Weight.WARNS, "shared memory",
         "--shm-size"),
        (replace(PCIE, room=replace(PLENTY, model_bytes=2**39)), Weight.WARNS, "page cache",
         "reads it from disk"),
        (replace(PCIE, room=replace(PLENTY, ram_available_bytes=2**33)), Weight.WARNS, "RAM",
         "13.4 GiB"),
        (replace(PCIE, nccl_files=(NcclFile("/etc/nccl.conf", "a", (("NCCL_P2P_LEVEL", "LOC"),)),)),
         Weight.WARNS, "/etc/nccl.conf", "also in trials of NCCL_P2P_LEVEL"),
        (replace(PCIE, unpassed=("NCCL_DEBUG",)), Weight.WARNS, "environment", "NCCL_DEBUG"),
        (replace(PCIE, system=replace(PCIE.system, iommu=Iommu.TRANSLATING)), Weight.WARNS, "IOMMU",
         "iommu=pt"),
        (replace(PCIE, system=replace(PCIE.system, acs_bridges=3)), Weight.WARNS, "ACS", "3 PCIe"),
        (replace(PCIE, software=replace(PCIE.software, sglang_version="0.0.0.dev1")), Weight.WARNS,
         "SGLang", "names no release"),
        (replace(PCIE, gpus=(replace(PCIE.gpus[0], name="Y"), *PCIE.gpus[1:])), Weight.WARNS,
         "GPUs", "not of one model"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_said_with_a_mend(
    facts: HostFacts, weight: Weight, subject: str, says: str
) -> None:
    (finding,) = findings(facts, NGRAM)
    assert (finding.weight, finding.subject) == (weight, subject)
    assert says in f"{finding.what} {finding.mend}"
    check = HostCheck(facts, findings=(finding,))
    assert check.exit_code == (NOT_READY if weight is Weight.WAITS else DONE)
    assert ("not ready" in headline(check)) is (weight is Weight.WAITS)


@pytest.mark.parametrize(
    ("paths", "says", "not_said"),
    [
        (square(8, "SYS", "PHB", group=4), ("off by itself", "GPUs 0-3 | 4-7", "stops at PXB"), ""),
        (square(8, "NV18"), ("custom all-reduce and NVLS can be used",), "PXB"),
        (square(4, "SYS", "NV4", group=2), ("Only some of the pairs",), "NVLS"),
        (square(4, "NV4"), ("All 4 GPUs have NVLink",), "PXB"),
        (square(2, "PHB"), ("is a choice",), "0-1"),
        (square(4, "PIX"), ("off by itself",), "PXB"),
        (square(4, "??"), ("not known",), "custom"),
        (square(1, ""), (), "GPUs"),
    ],
)
def test_links_are_put_in_words(
    paths: list[list[str]], says: tuple[str, ...], not_said: str
) -> None:
    facts = replace(PCIE, links=Links(tuple(map(tuple, paths))), gpus=PCIE.gpus[: len(paths)])
    text = " ".join(meanings(facts, {}))
    assert all(words in text for words in says)
    assert not not_said or not_said not in text


def test_problems_come_first_on_the_page() -> None:
    check = HostCheck(
        PCIE,
        (Problem("axis", "1", "it is not there", "Take it out."),),
        findings(replace(PCIE, unpassed=("NCCL_DEBUG",)), {}),
        ("A meaning.",),
        (("disable_custom_all_reduce", "off by itself"),),
    )
    lines = [line for line, _ in page_lines(check, 80)]
    heads = [line for line, is_head in page_lines(check, 80) if is_head]
    assert heads == [
        headline(check), "Not usable, because", "Take care", "What it means for a sweep",
        "Without effect here", "Found",
    ]  # fmt: skip
    assert "  - disable_custom_all_reduce: off by itself" in lines
    assert max(map(len, lines)) <= 80
    assert sum(line.count("SYS") for line in lines if line.startswith("  GPU")) == 32


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        app(["check", *words])
    code = ended.value.code
    assert isinstance(code, int)
    return code, capsys.readouterr().out


@contextmanager
def _a_neighbour_on_our_ports() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", LocalHost().free_port())) as listener:
        yield listener.getsockname()[1]


def test_the_command_tells_ready_from_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("NCCL_", "CUDA_", "SGLANG_"))]:
        monkeypatch.delenv(name)
    code, page = _run(capsys, "--host", "--engine", "emulated", "--truth", "nvlink")
    assert code == DONE
    assert page.startswith("EMULATED host local: ready")
    assert "NVSwitch" in page
    pid = os.getpid()
    folder = HostFolder(tmp_path / ".sweeps/hosts/local")
    folder.hold(Holding(pid, started_ticks(pid) or 0, 3, 2**34))
    with _a_neighbour_on_our_ports() as port:
        code, text = _run(capsys, "--host", "--engine", "emulated", "--json")
    assert code == NOT_READY
    (data,) = json.loads(text)
    assert (data["host"], data["emulated"], data["ready"]) == ("local", True, False)
    assert data["fingerprint"] == data["facts"]["fingerprint"]
    # Whatever else runs on this machine is told as well, and is no reason to wait.
    found = data["findings"]
    (finding,) = [one for one in found if one["weight"] == Weight.WAITS]
    assert finding["subject"] == "GPU 3"
    assert str(pid) in finding["what"]
    assert f"port {port}" in [one["subject"] for one in found if one["weight"] == Weight.WARNS]
    assert _run(capsys, "--host", "no.py")[0] == BAD_INPUT
    assert _run(capsys)[0] == BAD_INPUT
    assert _run(capsys, "no.py", "local")[0] == BAD_INPUT


def test_a_check_without_hosts_loads_no_probe() -> None:
    program = (
        "import sys; from orchestrator.cli import app\n"
        "try: app(['check', 'search_spaces/ngram.py', '--json'])\n"
        "except SystemExit as e: assert not e.code, e.code\n"
        "assert 'infra.probing.probe' not in sys.modules\n"
        "assert not {'psutil', 'rich.console', 'orchestrator.host_check'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60,
                   stdout=subprocess.DEVNULL)  # fmt: skip


def test_every_shipped_space_can_be_expressed_by_the_newest_sglang() -> None:
    for path in (ROOT / "search_spaces").glob("*.py"):
        if "sweep = Sweep(" in path.read_text():
            assert expression_problems(load_sweep(path), HostFacts("h")) == []


def test_the_worst_of_several_hosts_is_the_exit_code() -> None:
    assert worst([DONE, NOT_READY]) == NOT_READY
    assert worst([BAD_INPUT, NOT_READY, DONE]) == BAD_INPUT
    assert worst([]) == DONE
