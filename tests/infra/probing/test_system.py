"""The machine around the devices is read from its files."""

import socket
from pathlib import Path

import pytest

from infra.probing.facts import Iommu
from infra.probing.nccl_files import read_nccl_files
from infra.probing.neighbours import listeners, unpassed
from infra.probing.system import read_memory, read_room, read_system
from tests.infra.probing.stand_ins import Machine
from tests.ports import free_port

GPU = "sys/bus/pci/devices/0000:01:00.0"
BRIDGE = "sys/bus/pci/devices/0000:00:01.0"


def test_this_machine_can_be_read() -> None:
    system = read_system(Path("/"))
    assert system.kernel
    assert system.cpu_count >= 1
    room = read_room(Path("/"), Path("/nonexistent/deep"), None)
    assert 0 < room.ram_available_bytes <= room.ram_total_bytes
    assert room.disk_free_bytes > 0


def test_a_model_is_weighed_where_it_is_a_folder(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "model/deep").mkdir(parents=True)
    (tmp_path / "model/a").write_bytes(b"x" * 1000)
    (tmp_path / "model/deep/b").write_bytes(b"x" * 24)
    assert read_room(machine.root, tmp_path, tmp_path / "model").model_bytes == 1024
    assert read_room(machine.root, tmp_path, tmp_path / "none").model_bytes is None


def test_a_container_has_what_it_may_use(machine: Machine) -> None:
    assert read_memory(machine.root) == (1_024_000_000, 819_200_000)
    cgroup = {"memory.max": "600000000", "memory.current": "400000000",
              "memory.stat": "anon 1\ninactive_file 100000000\nactive_file 50000000\n"}  # fmt: skip
    machine.write_root({f"sys/fs/cgroup/{name}": text for name, text in cgroup.items()})
    assert read_memory(machine.root) == (600_000_000, 350_000_000)
    machine.write_root({"sys/fs/cgroup/memory.max": "max"})
    assert read_memory(machine.root) == (1_024_000_000, 819_200_000)


@pytest.mark.parametrize(
    ("modes", "found"),
    [({"g": "identity"}, Iommu.PASSTHROUGH), ({"g": "DMA-FQ"}, Iommu.TRANSLATING)],
)
def test_the_mode_of_the_gpus_group_counts(
    machine: Machine, modes: dict[str, str], found: Iommu
) -> None:
    assert read_system(machine.root).iommu is Iommu.OFF
    other = "sys/kernel/iommu_groups/7/type"
    machine.write_root({other: "DMA", f"{GPU}/class": "0x030200", f"{GPU}/vendor": "0x10de\n",
                        f"{GPU}/iommu_group/type": modes["g"]})  # fmt: skip
    assert read_system(machine.root).iommu is found


@pytest.mark.parametrize(
    ("control", "redirects"), [(0b0001_1101, 1), (0b0001_0001, 0), (0b0000_1000, 1)]
)
def test_a_bridge_that_redirects_is_counted(machine: Machine, control: int, redirects: int) -> None:
    assert read_system(machine.root).acs_bridges is None
    config = bytearray(4096)
    # Another capability first, whose head names the next one.
    config[0x100:0x104] = (0x148 << 20 | 1 << 16 | 0x0001).to_bytes(4, "little")
    config[0x148:0x14C] = (1 << 16 | 0x000D).to_bytes(4, "little")
    config[0x14E:0x150] = control.to_bytes(2, "little")
    machine.write_root({f"{BRIDGE}/class": "0x060400\n"})
    (machine.root / BRIDGE / "config").write_bytes(config[:64])
    assert read_system(machine.root).acs_bridges is None
    (machine.root / BRIDGE / "config").write_bytes(config)
    assert read_system(machine.root).acs_bridges == redirects


def test_nccl_takes_one_file_of_the_system_and_one_of_its_user(machine: Machine) -> None:
    home = {"HOME": str(machine.root / "home")}
    assert read_nccl_files(home, machine.root) == ()
    machine.write_root({"etc/nccl.conf": "# why\nNCCL_P2P_LEVEL = SYS\n\nnonsense\n"})
    machine.write_root({"home/.nccl.conf": "NCCL_ALGO=Ring", "own.conf": "NCCL_PROTO=LL"})
    system, user = read_nccl_files(home, machine.root)
    assert system.settings == (("NCCL_P2P_LEVEL", "SYS"),)
    assert user.settings == (("NCCL_ALGO", "Ring"),)
    assert system.digest != user.digest
    own = {**home, "NCCL_CONF_FILE": str(machine.root / "own.conf")}
    assert [dict(file.settings) for file in read_nccl_files(own, machine.root)] == [
        {"NCCL_P2P_LEVEL": "SYS"},
        {"NCCL_PROTO": "LL"},
    ]


def test_who_listens_on_a_port_of_ours_is_named() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        (found,) = listeners((port, port))
        assert found.port == port
        assert found.pid
        assert found.name
    assert listeners((port, port)) == ()


def test_variables_that_stay_here_are_named() -> None:
    shell = {"NCCL_DEBUG": "INFO", "NCCL_PROTO": "LL", "CUDA_HOME": "/cuda", "EDITOR": "vi"}
    passed = {"NCCL_PROTO": "Simple", "CUDA_HOME": "/cuda"}
    assert unpassed(shell, passed) == ("NCCL_DEBUG",)
