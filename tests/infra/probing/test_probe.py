"""A probe finds what is there, asks again only what is cheap, and never fails."""

import os
from pathlib import Path

import pytest

from infra.emulated.life.host_folder import Holding, HostFolder
from infra.machine import Interconnect, Machine
from infra.probing.cache import FILE_NAME, read_facts
from infra.probing.facts import HostFacts
from infra.probing.probe import probe_host
from infra.process_id import started_ticks
from infra.sglang.flags import FLAGS
from infra.sglang.probe import flags_in
from sweeps.hosts import EngineName, HostSpec
from tests.infra.probing import stand_ins
from tests.infra.probing.stand_ins import square

pytestmark = pytest.mark.slow

OLD_FLAGS = ("--tp-size", "--model-path", "--speculative-ngram-max-match-window-size")
NEW_FLAGS = ("--tp-size", "--model-path", "--speculative-ngram-max-trie-depth")


def _notes(facts: HostFacts) -> dict[str, str]:
    return {note.fact: note.why for note in facts.notes}


@pytest.mark.parametrize(
    ("paths", "interconnect"),
    [
        (square(8, "SYS", "PHB", group=4), Interconnect.PCIE),
        (square(8, "NV18"), Interconnect.NVSWITCH),
        (square(4, "SYS", "NV4", group=2), Interconnect.NVLINK),
    ],
)
def test_all_of_a_real_machine_is_found(
    machine: stand_ins.Machine,
    tmp_path: Path,
    paths: list[list[str]],
    interconnect: Interconnect,
) -> None:
    machine.install_driver(paths, apps=["4242, GPU-1, 2048, /opt/python, -m train"])
    machine.install_sglang("0.5.9+cu128", OLD_FLAGS)
    machine.write_root({"etc/nccl.conf": "NCCL_DEBUG=WARN"})
    host = machine.host(gpus=len(paths))
    facts = probe_host(host, tmp_path / "h", around=machine.around({"NCCL_PROTO": "LL"}))
    assert facts.notes == ()
    assert facts.machine == Machine(len(paths), interconnect, (9, 0), "2.27.3")
    assert facts.version == "0.5.9"
    assert facts.accepted_flags == {
        "tp_size", "model_path", "speculative_ngram_max_match_window_size"
    }  # fmt: skip
    assert facts.software.interpreter == host.python
    assert (facts.driver_version, facts.cuda_version) == ("570.86.10", "12.8")
    assert facts.gpus[1].memory_total_bytes == 81559 * 2**20
    (user,) = facts.gpu_users
    assert (user.pid, user.gpu_index, user.name) == (4242, 1, "/opt/python, -m train")
    assert facts.nccl_files[0].settings == (("NCCL_DEBUG", "WARN"),)
    assert facts.unpassed == ("NCCL_PROTO",)
    assert facts.system.numa_nodes == 2
    assert not facts.emulated


def test_help_is_asked_once_until_something_is_installed(
    machine: stand_ins.Machine, tmp_path: Path
) -> None:
    machine.install_driver(square(2, "PHB"), used_mib=1)
    machine.install_sglang("0.5.9", OLD_FLAGS)

    def probe(**changes: object) -> HostFacts:
        return probe_host(machine.host(gpus=2, **changes), tmp_path, around=machine.around())

    first = probe()
    machine.install_driver(square(2, "PHB"), used_mib=70_000)
    again = probe()
    assert machine.times_asked == 1
    assert again.software == first.software
    assert again.fingerprint == first.fingerprint
    assert again.gpus[0].memory_used_bytes == 70_000 * 2**20
    assert read_facts(tmp_path) == again

    machine.install_sglang("0.5.23", NEW_FLAGS)
    new = probe()
    assert machine.times_asked == 2
    assert "speculative_ngram_max_trie_depth" in new.accepted_flags
    assert new.version == "0.5.23"
    assert new.fingerprint != first.fingerprint

    (machine.folder / "packages/sglang/srt/server_args.py").write_text("# edited in place\n")
    assert probe().software == new.software
    assert machine.times_asked == 3

    for text in ("{", '{"validity": 3}', '{"validity": {"key": {}, "stamps": {}}}', ""):
        (tmp_path / FILE_NAME).write_text(text)
        assert probe().software == new.software
    assert machine.times_asked == 7

    probe(env={"SGLANG_USE_CPU_ENGINE": "1"})
    assert machine.times_asked == 8


def test_what_cannot_be_read_is_noted_and_asked_again(
    machine: stand_ins.Machine, tmp_path: Path
) -> None:
    machine.install_sglang("0.5.9", OLD_FLAGS, nccl="", fails=True)
    machine.install_program("nvidia-smi", "echo 'NVML: version mismatch' >&2; exit 18\n")
    (machine.root / "proc/meminfo").unlink()
    facts = probe_host(machine.host(gpus=8), tmp_path, around=machine.around())
    notes = _notes(facts)
    assert "libcuda is missing" in notes.pop("the flags of SGLang")
    assert "meminfo" in notes.pop("free memory and disk")
    assert notes.keys() == {"GPUs", "links", "GPU processes", "the CUDA version"}
    assert all("version mismatch" in why for why in notes.values())
    assert facts.version == "0.5.9"
    assert facts.software.nccl_version == ""
    assert facts.system.cpu_model
    probe_host(machine.host(gpus=8), tmp_path, around=machine.around())
    assert machine.times_asked == 2


def test_a_machine_without_a_driver_or_sglang_is_described_all_the_same(
    machine: stand_ins.Machine, tmp_path: Path
) -> None:
    around = machine.around({"PATH": "/nonexistent"})
    facts = probe_host(machine.host(gpus=8), tmp_path, around=around)
    assert _notes(facts).keys() == {"GPUs", "the interpreter", "the flags of SGLang"}
    assert facts.gpus == ()
    assert facts.software.sglang_version == ""


def test_a_state_folder_that_cannot_be_written_costs_only_the_cache(
    machine: stand_ins.Machine, tmp_path: Path
) -> None:
    machine.install_sglang("0.5.9", OLD_FLAGS)
    (tmp_path / "file").write_text("")
    facts = probe_host(machine.host(), tmp_path / "file/h", around=machine.around())
    assert _notes(facts).keys() == {"the host's folder", "the next probe's cache"}
    assert facts.version == "0.5.9"


def test_an_emulated_host_is_seen_from_outside(tmp_path: Path) -> None:
    spec = HostSpec("e", EngineName.EMULATED, version="0.5.9", truth="switch", gpus=4)
    folder, pid = HostFolder(tmp_path), os.getpid()
    folder.hold(Holding(pid, started_ticks(pid) or 0, 2, 5 * 2**30))
    facts = probe_host(spec, tmp_path)
    assert facts.notes == ()
    assert facts.emulated
    assert facts.machine == Machine(4, Interconnect.PCIE, (12, 0))
    assert facts.links.kinds == ("PIX", "PXB")
    listed = {name for name in FLAGS if name in facts.accepted_flags}
    assert listed == {name for name, flag in FLAGS.items() if flag.exists_in("0.5.9")}
    assert facts.version == "0.5.9"
    (user,) = facts.gpu_users
    assert (user.pid, user.gpu_index, user.used_bytes) == (pid, 2, 5 * 2**30)
    assert facts.gpus[2].memory_used_bytes > 5 * 2**30  # type: ignore[operator] # it is told


def test_emulated_machines_of_equal_make_do_not_share_results(tmp_path: Path) -> None:
    def probe(truth: str) -> HostFacts:
        return probe_host(HostSpec("e", EngineName.EMULATED, truth=truth), tmp_path / truth)

    one, other = probe("M"), probe("G")
    assert one.links == other.links
    assert one.fingerprint != other.fingerprint


def test_only_lines_that_define_an_option_count() -> None:
    text = (
        "usage: x [-h] [--in-usage X]\n\noptions:\n"
        "  -h, --help            show this\n"
        "  --tensor-parallel-size TP, --tp-size TP\n"
        "                        as many as --not-an-option, --nor-this\n"
        "  --cuda-graph-bs X [X ...]\n"
        "  --flag, --no-flag     instead of --gone, --removed\n"
        "  --dtype {auto,half}   in words\n"
    )
    assert flags_in(text) == (
        "cuda_graph_bs", "dtype", "flag", "no_flag", "tensor_parallel_size", "tp_size"
    )  # fmt: skip
