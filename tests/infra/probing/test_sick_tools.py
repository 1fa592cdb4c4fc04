"""A driver's program that is sick: its good rows are used, and all that it says reaches the user.

What it prints is quoted from public reports, which each row names.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from infra.probing.facts import HostFacts, Note
from infra.probing.plain import plain_facts
from infra.probing.probe import probe_host
from infra.probing.reading import ReadError, ask, message_of
from tests.infra.probing import stand_ins
from tests.infra.probing.stand_ins import MODEL

GOOD = f"0, GPU-0, {MODEL}, 81559, 4, 9.0, 535.161.08"
OTHER = f"1, GPU-1, {MODEL}, 81559, 4, 9.0, 535.161.08"

FAILED: list[tuple[str, Sequence[str], int, Sequence[str]]] = [
    # Report, lines that are printed, exit code, and what must reach the user.
    ("intel/llvm 17614",
     ["Failed to initialize NVML: Driver/library version mismatch",
      "NVML library version: 535.161"], 18,
     ["ended with 18", "Driver/library version mismatch", "NVML library version: 535.161"]),
    ("NVIDIA/nvidia-container-toolkit 817",
     ["Failed to initialize NVML: Unknown Error"], 255, ["NVML: Unknown Error"]),
    ("NVIDIA/nvidia-container-toolkit 210",
     ["Failed to initialize NVML: Insufficient Permissions"], 4, ["Insufficient Permissions"]),
    ("canonical/inference-snaps 199: exit 9, no driver",
     ["NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
      "Make sure that the latest NVIDIA driver is installed and running."], 9,
     ["couldn't communicate", "Make sure that the latest"]),
    ("nvidia-smi(1), return value 6", ["No devices were found"], 6, ["No devices were found"]),
    ("marian-nmt/marian 251",
     ["Unable to determine the device handle for GPU 0000:0A:00.0: GPU is lost.  Reboot the system"
      " to recover this GPU"], 15, ["GPU is lost. Reboot the system to recover this GPU"]),
    ("NVIDIA/open-gpu-kernel-modules 387",
     ["Unable to determine the device handle for GPU0000:01:00.0: Unknown Error",
      "No devices were found"], 6, ["Unknown Error", "No devices were found"]),
]  # fmt: skip

PARTLY: list[tuple[str, Sequence[str], int, int, str]] = [
    # Report, lines, exit code, how many devices are used, and what is told beside them.
    ("NVIDIA/gpu-operator 285 and pytorch/pytorch 87464: exit 14",
     [GOOD, "WARNING: infoROM is corrupted at gpu 0000:3B:00.0"], 14, 1,
     "infoROM is corrupted at gpu 0000:3B:00.0"),
    ("NVIDIA/gpu-operator 20: told first",
     ["WARNING: infoROM is corrupted at gpu 0000:3B:00.0", GOOD, OTHER], 14, 2, "infoROM"),
    ("enkore/i3pystatus 850: words in brackets for fields",
     [GOOD, "1, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], 535"],
     0, 1, "1, [GPU is lost]"),
    ("NVIDIA/dcgm-exporter 604: a GPU that does not answer",
     [GOOD, "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error"], 0, 1,
     "Unable to determine the device handle"),
    ("a row that was cut", [GOOD, OTHER[:30]], 0, 1, OTHER[:30]),
    ("an index that is no number", [GOOD, OTHER.replace("1,", "[N/A],", 1)], 0, 1, "[N/A]"),
    ("HSF/prmon 317: a field that a part of a device has not",
     [GOOD, OTHER.replace("81559, 4", "[N/A], [N/A]"), "x"], 0, 2, "tells besides: x"),
    ("good rows and no word", [GOOD, OTHER], 14, 2, "ended with 14"),
]  # fmt: skip


def _install(machine: stand_ins.Machine, lines: Sequence[str], code: int, apps: str = "") -> None:
    topo = stand_ins.matrix(stand_ins.square(2, "SYS"))
    machine.install_driver(stand_ins.square(2, "SYS"))
    for name, text in {"gpus": "\n".join(lines), "apps": apps, "topo": topo}.items():
        (machine.folder / "answers" / name).write_text(f"{text}\n" if text else "")
    cat = f'cat "{machine.folder}/answers'
    machine.install_program(
        "nvidia-smi",
        f'case "$1" in\n  --query-gpu=*) {cat}/gpus";;\n  --query-compute-apps=*) {cat}/apps";;\n'
        f'  topo) {cat}/topo";;\n  *) {cat}/plain";;\nesac\nexit {code}\n',
    )


def _facts(machine: stand_ins.Machine, tmp_path: Path) -> HostFacts:
    return probe_host(machine.host(gpus=2), tmp_path, around=machine.around())


def _plain(machine: stand_ins.Machine, tmp_path: Path) -> HostFacts:
    """Look as at a host without ours, whose answers come over a connection."""

    def run(argv: Sequence[str]) -> str:
        env = {"PATH": f"{machine.folder}/bin:/usr/bin:/bin"}
        return ask(["/usr/bin/env", *argv], env, 30, tmp_path)

    return plain_facts(run, machine.host(gpus=2), str(tmp_path))


@pytest.mark.parametrize(("report", "lines", "code", "told"), FAILED)
def test_all_that_a_failing_program_says_is_told(
    machine: stand_ins.Machine, tmp_path: Path, report: str, lines: Sequence[str], code: int,
    told: Sequence[str],
) -> None:  # fmt: skip
    _install(machine, lines, code)
    for facts in (_facts(machine, tmp_path), _plain(machine, tmp_path)):
        (note,) = [note for note in facts.notes if note.fact == "GPUs"]
        assert not note.is_warning
        assert facts.gpus == ()
        assert all(words in note.why for words in told), (report, note.why)


@pytest.mark.parametrize(("report", "lines", "code", "devices", "told"), PARTLY)
def test_good_rows_are_used_and_the_rest_is_a_warning(
    machine: stand_ins.Machine, tmp_path: Path, report: str, lines: Sequence[str], code: int,
    devices: int, told: str,
) -> None:  # fmt: skip
    _install(machine, lines, code)
    for facts in (_facts(machine, tmp_path), _plain(machine, tmp_path)):
        notes = [note for note in facts.notes if note.fact == "GPUs"]
        assert len(facts.gpus) == devices, report
        assert facts.driver_version == "535.161.08"
        assert all(note.is_warning for note in notes)
        assert any(told in note.why for note in notes), (report, notes)
        assert facts.links.paths
        assert HostFacts(host="x", notes=facts.notes).notes == facts.notes


def test_nobody_computes_where_a_warning_is_all_that_is_told(
    machine: stand_ins.Machine, tmp_path: Path
) -> None:
    warning = "WARNING: infoROM is corrupted at gpu 0000:3B:00.0"
    for apps, is_known in ((warning, True), ("Unable to determine the device handle", False)):
        _install(machine, [GOOD, warning], 14, apps)
        for facts in (_facts(machine, tmp_path), _plain(machine, tmp_path)):
            notes = [note for note in facts.notes if note.fact == "GPU processes"]
            assert not facts.gpu_users
            assert all(note.is_warning for note in notes) is is_known, notes
            assert sum(warning in note.why for note in facts.notes) == 1 or not is_known


def test_a_row_without_a_pid_loses_that_row_alone(
    machine: stand_ins.Machine, tmp_path: Path
) -> None:
    apps = [f"1{gpu}, GPU-{gpu}, 500, /usr/bin/other, with a comma" for gpu in range(2)]
    lost = ["[N/A], GPU-0, [N/A], [Insufficient Permissions]", "-, GPU-1, 4, x", "12"]
    _install(machine, [GOOD, OTHER], 0, "\n".join([apps[0], *lost, apps[1]]))
    for facts in (_facts(machine, tmp_path), _plain(machine, tmp_path)):
        assert [(user.pid, user.gpu_index) for user in facts.gpu_users] == [(10, 0), (11, 1)]
        assert facts.gpu_users[0].name == "/usr/bin/other, with a comma"
        told = [note for note in facts.notes if note.fact == "GPU processes"]
        assert len(told) == 3
        assert "[Insufficient Permissions]" in told[0].why


def test_a_flood_of_bad_rows_is_counted(machine: stand_ins.Machine, tmp_path: Path) -> None:
    _install(machine, [GOOD, *(f"bad {number}" for number in range(500))], 0)
    notes = [note for note in _facts(machine, tmp_path).notes if note.fact == "GPUs"]
    assert len(notes) < 20
    assert "492 lines more" in notes[-1].why


def test_a_long_message_keeps_its_head_and_its_end() -> None:
    told = message_of("first\n" + "middle\n" * 3 + "x" * 5000, "the end\x1b[31m\n")
    assert told.startswith("first; middle; x")
    assert told.endswith("the end?[31m")
    assert len(told) < 700


def test_a_program_that_fails_says_all_of_it(tmp_path: Path) -> None:
    with pytest.raises(ReadError) as failed:
        ask(["/bin/sh", "-c", "echo row; echo one >&2; echo two >&2; exit 3"], {}, 30, tmp_path)
    assert str(failed.value) == "sh ended with 3: one; two; row"
    assert failed.value.printed == "row\n"


def test_a_note_of_an_older_version_is_read() -> None:
    assert str(Note("GPUs", "x")) == "GPUs could not be read: x"
    assert str(Note("GPUs", "x", is_warning=True)) == "GPUs: x"
