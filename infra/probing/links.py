"""What joins the GPUs of a host, as `nvidia-smi topo -m` prints it, and what that means."""

import re
from dataclasses import dataclass

from infra.machine import Interconnect

SELF = "X"
_NVLINK = re.compile(r"NV(\d+)")
_GPU = re.compile(r"GPU(\d+)")
_UNDERLINE = re.compile(r"\x1b\[[0-9;]*m")
_MOST_LINKS = 18
"""NVLinks of one GPU, up to Blackwell: whoever has more in all reaches others by a switch."""
_BY_DISTANCE = ("PIX", "PXB", "PHB", "NODE", "SYS")


@dataclass(frozen=True, slots=True)
class Links:
    """The path from each GPU (row) to each (column), by nvidia-smi's words; `X` is itself."""

    paths: tuple[tuple[str, ...], ...] = ()
    numa: tuple[str, ...] = ()
    """NUMA nodes near each GPU; empty where it is not told."""

    @property
    def pairs(self) -> tuple[str, ...]:
        """Return the path of each pair of GPUs."""
        return tuple(
            path for row, paths in enumerate(self.paths) for path in paths[:row] if path != SELF
        )

    @property
    def interconnect(self) -> Interconnect:
        """Tell what the pairs have in common. A single GPU has nobody to reach."""
        if not self.pairs:
            return Interconnect.UNKNOWN
        counts = [_link_count(path) for path in self.pairs]
        if not any(counts):
            known = all(path in _BY_DISTANCE for path in self.pairs)
            return Interconnect.PCIE if known else Interconnect.UNKNOWN
        # More links than a GPU has, if each pair had its own: all pairs share them by a switch.
        if all(counts) and min(counts) * (len(self.paths) - 1) > _MOST_LINKS:
            return Interconnect.NVSWITCH
        return Interconnect.NVLINK

    @property
    def fully_linked(self) -> bool:
        """Tell whether every pair has NVLink."""
        return bool(self.pairs) and all(_link_count(path) for path in self.pairs)

    @property
    def farthest(self) -> str:
        """Return the longest path over PCIe; empty where no pair needs one."""
        used = [path for path in _BY_DISTANCE if path in self.pairs]
        return used[-1] if used else ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the paths that occur, nearest first."""
        occurring = set(self.pairs)
        linked = sorted(occurring - set(_BY_DISTANCE), key=_link_count, reverse=True)
        return (*linked, *(path for path in _BY_DISTANCE if path in occurring))

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the GPUs that reach each other without crossing between NUMA nodes."""
        found: list[list[int]] = []
        for gpu, row in enumerate(self.paths):
            near = next((group for group in found if row[group[0]] != "SYS"), None)
            if near is None:
                found.append([gpu])
            else:
                near.append(gpu)
        return tuple(tuple(group) for group in found)


def read_links(text: str) -> Links:
    """Read the matrix, whatever other devices stand in it. Raises ValueError if there is none."""
    lines = [_cells(line) for line in _UNDERLINE.sub("", text).splitlines()]
    heads = next((cells for cells in lines if cells and _GPU.fullmatch(cells[0])), None)
    if heads is None:
        raise ValueError("there is no matrix of GPUs in it")
    gpus = [name for name in heads if _GPU.fullmatch(name)]
    rows = {cells[0]: cells[1:] for cells in lines if len(cells) > len(gpus) and cells[0] in gpus}
    # With one GPU, the head is a line that could be a row: the last of a name is the row.
    if rows.keys() != set(gpus) or any(rows[gpu][at] != SELF for at, gpu in enumerate(gpus)):
        raise ValueError("rows and columns of the matrix do not fit")
    return Links(
        tuple(tuple(rows[gpu][: len(gpus)]) for gpu in gpus),
        tuple(_numa(heads, rows[gpu]) for gpu in gpus),
    )


def _cells(line: str) -> list[str]:
    """Split a line: fields are padded with several tabs, and some hold blanks."""
    return [cell.strip() for cell in line.split("\t") if cell.strip()]


def _numa(heads: list[str], row: list[str]) -> str:
    named = "NUMA Affinity"
    if named not in heads or len(row) <= heads.index(named):
        return ""
    told = row[heads.index(named)]
    return "" if told == "N/A" else told


def _link_count(path: str) -> int:
    found = _NVLINK.fullmatch(path)
    return int(found.group(1)) if found else 0
