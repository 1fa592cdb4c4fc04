"""The command `python -m infra.emulated.smi`: what nvidia-smi would say of an emulated host.

It takes the queries that scripts use. The host is told by the EMULATED_* variables, as to a server.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from infra.emulated.arguments import EXIT_USAGE, Emulation, EmulationError, read_emulation
from infra.emulated.life.gpu_view import EmulatedGpuView
from infra.emulated.life.host_folder import HostFolder
from infra.emulated.topology import matrix_lines
from infra.gpus import Gpu, GpuProcess, GpuView

_MIB = 2**20
_UNKNOWN = "[N/A]"
_FORMATS = {"csv", "noheader", "nounits"}
_DRIVER = "emulated"
_CAPABILITIES = {"RTX PRO 6000": "12.0", "H200": "9.0"}
"""Part of a device's name to its compute capability (NVIDIA's list)."""
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[_Row]):
    """A field of a query: how it is read, its unit, and its head if that is not its name."""

    read: Callable[[_Row], object]
    unit: str = ""
    head: str = ""


GPU_COLUMNS: Mapping[str, Column[Gpu]] = {
    "index": Column(lambda gpu: gpu.index),
    "uuid": Column(lambda gpu: gpu.uuid),
    "name": Column(lambda gpu: gpu.name),
    "memory.total": Column(lambda gpu: _mib(gpu.memory_total_bytes), "MiB"),
    "memory.used": Column(lambda gpu: _mib(gpu.memory_used_bytes), "MiB"),
    "memory.free": Column(lambda gpu: _free_mib(gpu), "MiB"),
    # Which GPU works at a moment is known to no file.
    "utilization.gpu": Column(lambda _: None, "%"),
    "compute_cap": Column(lambda gpu: _capability(gpu.name)),
    "driver_version": Column(lambda _: _DRIVER),
}
APP_COLUMNS: Mapping[str, Column[GpuProcess]] = {
    "pid": Column(lambda process: process.pid),
    "gpu_uuid": Column(lambda process: f"GPU-emulated-{process.gpu_index}"),
    "process_name": Column(lambda process: _title(process.pid)),
    "used_memory": Column(lambda process: _mib(process.used_bytes), "MiB", "used_gpu_memory"),
    "used_gpu_memory": Column(lambda process: _mib(process.used_bytes), "MiB"),
}


class QueryError(ValueError):
    """A field or a format is not known."""


def main(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Answer one call; return the exit code."""
    given = _parser().parse_args(argv)
    try:
        view = open_view(environment)
        if given.command == "topo":
            lines = topology(read_emulation(environment), matrix=given.matrix)
        elif given.query_gpu:
            lines = table(given.query_gpu, given.format, GPU_COLUMNS, view.list_gpus())
        elif given.query_compute_apps:
            apps = view.gpu_processes()
            lines = table(given.query_compute_apps, given.format, APP_COLUMNS, apps)
        else:
            lines = overview(view)
    except (EmulationError, QueryError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_USAGE
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def open_view(environment: Mapping[str, str]) -> EmulatedGpuView:
    """Return the GPUs of the host that the variables name. Raises EmulationError."""
    emulation = read_emulation(environment)
    if emulation.host_folder is None:
        raise EmulationError("EMULATED_HOST_FOLDER is unset: name the emulated host's folder")
    folder = HostFolder(emulation.host_folder)
    return EmulatedGpuView(folder, emulation.truth.gpu, emulation.gpus)


def topology(emulation: Emulation, *, matrix: bool) -> list[str]:
    """Return what joins the GPUs. Raises QueryError."""
    if not matrix:
        raise QueryError("topo: only -m is known")
    return matrix_lines(emulation.truth.name, emulation.gpus)


def table(
    query: str, form: str, columns: Mapping[str, Column[_Row]], rows: Iterable[_Row]
) -> list[str]:
    """Return the lines of a query. Raises QueryError."""
    names, options = query.split(","), set(form.split(","))
    if unknown := [name for name in names if name not in columns]:
        raise QueryError(f'Field "{unknown[0]}" is not a valid field to query.')
    if "csv" not in options or not options <= _FORMATS:
        raise QueryError(f"--format={form}: csv, with noheader and nounits if wanted")
    units = {name: "" if "nounits" in options else columns[name].unit for name in names}
    heads = [_join(columns[name].head or name, units[name], "[{}]") for name in names]
    lines = [
        ", ".join(_cell(columns[name].read(row), units[name]) for name in names) for row in rows
    ]
    return lines if "noheader" in options else [", ".join(heads), *lines]


def overview(view: GpuView) -> list[str]:
    """Return a short table of devices and processes."""
    gpus = table("index,name,memory.used,memory.total", "csv", GPU_COLUMNS, view.list_gpus())
    apps = table("pid,gpu_uuid,process_name,used_memory", "csv", APP_COLUMNS, view.gpu_processes())
    return ["EMULATED GPUs: no device, no driver", *gpus, "", *apps]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nvidia-smi", description="The GPUs of an EMULATED host.")
    parser.add_argument("command", nargs="?", choices=["topo"], help="topo -m: what joins them")
    parser.add_argument("-m", "--matrix", action="store_true", help="with topo")
    query = parser.add_mutually_exclusive_group()
    query.add_argument("--query-gpu", metavar="FIELDS", help=", ".join(GPU_COLUMNS))
    query.add_argument("--query-compute-apps", metavar="FIELDS", help=", ".join(APP_COLUMNS))
    parser.add_argument("--format", default="csv", help="csv[,noheader][,nounits]")
    return parser


def _capability(name: str) -> str | None:
    return next((found for part, found in _CAPABILITIES.items() if part in name), None)


def _title(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return words.replace(b"\0", b" ").decode(errors="replace").strip()


def _mib(size_bytes: int | None) -> int | None:
    return None if size_bytes is None else size_bytes // _MIB


def _free_mib(gpu: Gpu) -> int | None:
    if gpu.memory_total_bytes is None or gpu.memory_used_bytes is None:
        return None
    return _mib(max(0, gpu.memory_total_bytes - gpu.memory_used_bytes))


def _cell(value: object, unit: str) -> str:
    return _UNKNOWN if value is None else _join(str(value), unit, "{}")


def _join(text: str, unit: str, form: str) -> str:
    return f"{text} {form.format(unit)}" if unit else text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
