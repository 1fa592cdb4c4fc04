"""A machine for a probe to look at: a driver's program, an SGLang that only has a help page."""

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.probing.probe import Surroundings
from sweeps.hosts import EngineName, HostSpec

MODEL = "NVIDIA H100 80GB HBM3"


def matrix(rows: Sequence[Sequence[str]], *, numa: Sequence[str] = (), nics: int = 0) -> str:
    """Write paths as the driver's program does; each network card hangs on the first GPU."""
    count = len(rows)
    cards = [f"NIC{card}" for card in range(nics)]
    heads = [*(f"GPU{gpu}" for gpu in range(count)), *cards]
    head = "\t".join([*heads, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    lines = [f"\t\x1b[4m{head}\x1b[0m"]
    for gpu, row in enumerate(rows):
        paths = [" X " if path == "X" else path for path in row]
        near = ["PIX" if gpu == 0 else "NODE" for _ in cards]
        node = numa[gpu] if numa else "N/A"
        lines.append("\t".join([f"GPU{gpu}", *paths, *near, "0-31,64-95", node, "", "N/A"]))
    for card in cards:
        paths = ["PIX" if gpu == 0 else "NODE" for gpu in range(count)]
        lines.append("\t".join([card, *paths, *(" X " if c == card else "PXB" for c in cards)]))
    return "\n".join([*lines, "", "Legend:", "", "  X    = Self", "  SYS  = the far way", ""])


def square(count: int, far: str, near: str = "", *, group: int = 1) -> list[list[str]]:
    """Return paths between GPUs that stand in groups of equal size."""
    return [
        [
            "X" if a == b else near if near and a // group == b // group else far
            for b in range(count)
        ]
        for a in range(count)
    ]


@dataclass(frozen=True, slots=True)
class Machine:
    """A folder that looks like a machine."""

    folder: Path

    @property
    def root(self) -> Path:
        """Return the root of its file system."""
        return self.folder / "root"

    def around(
        self, shell: Mapping[str, str] | None = None, ports: tuple[int, int] = (1, 2)
    ) -> Surroundings:
        """Return what a probe sees of it."""
        programs = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        home = str(self.root / "home")
        return Surroundings({"PATH": programs, "HOME": home, **(shell or {})}, self.root, ports)

    def host(self, **changes: object) -> HostSpec:
        """Return a host with this machine's interpreter."""
        python = str(self.folder / "bin/python")
        fields: dict[str, object] = {"name": "here", "gpus": 0, "python": python, **changes}
        return HostSpec(engine=EngineName.SGLANG, **fields)  # type: ignore[arg-type] # as given

    def install_driver(
        self,
        paths: Sequence[Sequence[str]],
        *,
        used_mib: int = 4,
        driver: str = "570.86.10",
        apps: Sequence[str] = (),
        numa: Sequence[str] = (),
    ) -> None:
        """Put a program on the path that answers as the driver's does."""
        gpus = [
            f"{index}, GPU-{index}, {MODEL}, 81559, {used_mib}, 9.0, {driver}"
            for index in range(len(paths))
        ]
        answers = {
            "gpus": "\n".join(gpus),
            "apps": "\n".join(apps),
            "topo": matrix(paths, numa=numa, nics=2),
            "plain": f"| Driver Version: {driver}     CUDA Version: 12.8     |",
        }
        for name, text in answers.items():
            self._write(f"answers/{name}", f"{text}\n")
        cat = f'cat "{self.folder}/answers'
        self.install_program(
            "nvidia-smi",
            f'case "$1" in\n'
            f'  --query-gpu=*) {cat}/gpus";;\n  --query-compute-apps=*) {cat}/apps";;\n'
            f'  topo) {cat}/topo";;\n  *) {cat}/plain";;\nesac\n',
        )

    def install_program(self, name: str, script: str) -> None:
        """Put a shell script on the path."""
        path = self._write(f"bin/{name}", f"#!/bin/sh\n{script}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def install_sglang(
        self, version: str, flags: Sequence[str], *, nccl: str = "2.27.3", fails: bool = False
    ) -> None:
        """Install an SGLang that has a help page, and counts how often it is asked for it."""
        packages = self.folder / "packages"
        self._write("packages/sglang/__init__.py", "")
        self._write("packages/sglang/srt/server_args.py", f"# {version}\n")
        lines = [
            "import argparse, pathlib, sys",
            f"with open({str(self.folder / 'asked')!r}, 'a') as file: file.write('x')",
            "sys.exit('libcuda is missing')" if fails else "",
            "parser = argparse.ArgumentParser()",
            *(f"parser.add_argument({flag!r}, help='see --nothing')" for flag in flags),
            "parser.parse_args()",
        ]
        self._write("packages/sglang/launch_server.py", "\n".join(lines))
        self._distribution("sglang", version)
        if nccl:
            self._distribution("nvidia-nccl-cu12", nccl)
        self.install_program("python", f'PYTHONPATH="{packages}" exec "{sys.executable}" "$@"\n')

    @property
    def times_asked(self) -> int:
        """Return how often SGLang was asked for its help."""
        path = self.folder / "asked"
        return len(path.read_text()) if path.exists() else 0

    def write_root(self, files: Mapping[str, str]) -> None:
        """Write files of the machine."""
        for name, text in files.items():
            self._write(f"root/{name}", text)

    def _distribution(self, name: str, version: str) -> None:
        stem = name.replace("-", "_")
        for old in (self.folder / "packages").glob(f"{stem}-*.dist-info/*"):
            old.unlink()
            if not any(old.parent.iterdir()):
                old.parent.rmdir()
        info = f"packages/{stem}-{version}.dist-info"
        self._write(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        self._write(f"{info}/RECORD", f"{stem}-{version}.dist-info/RECORD,,\n")

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


def make_machine(folder: Path) -> Machine:
    """Return a machine with a processor, memory and nothing else."""
    machine = Machine(folder)
    machine.write_root(
        {
            "proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654\n",
            "proc/meminfo": "MemTotal:  1000000 kB\nMemFree: 1 kB\nMemAvailable:  800000 kB\n",
            "sys/devices/system/node/node0/x": "",
            "sys/devices/system/node/node1/x": "",
            "sys/kernel/iommu_groups/.keep": "",
            "dev/shm/.keep": "",
            "home/.keep": "",
        }
    )
    return machine
