"""What joins the GPUs of an emulated host, as a driver would show it; it costs nothing by itself.

The step times come from the host's truth alone, of which the words here tell no more than what a
machine of that kind shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SELF = " X "
_LEGEND = {
    "SYS": "over PCIe and between NUMA nodes",
    "NODE": "over PCIe and between host bridges of one NUMA node",
    "PHB": "over PCIe and a host bridge",
    "PXB": "over several PCIe switches",
    "PIX": "over one PCIe switch",
    "NV18": "over 18 NVLinks",
}


@dataclass(frozen=True, slots=True)
class Joined:
    """Two halves of a host: the path within a half, the one between them, and their NUMA nodes."""

    within: str
    between: str
    nodes: tuple[int, int] = (0, 1)


_TWO_SOCKETS = Joined("PHB", "SYS")

JOINED: Mapping[str, Joined] = {
    "S": _TWO_SOCKETS,
    "M": _TWO_SOCKETS,
    "G": _TWO_SOCKETS,
    "switch": Joined("PIX", "PXB", (0, 0)),
    "nvlink": Joined("NV18", "NV18"),
}
"""Assumption: how each emulated host is built, by the name of its truth."""


def matrix_lines(truth: str, gpus: int) -> list[str]:
    """Return the matrix of paths in the driver's own form: tabs, underlined head, legend."""
    joined = JOINED[truth]
    names = [f"GPU{index}" for index in range(gpus)]
    heads = "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    rows = [_row(joined, index, gpus) for index in range(gpus)]
    used = {joined.within, joined.between}
    legend = [f"  {path:4} = {words}" for path, words in _LEGEND.items() if path in used]
    return [
        f"\t\x1b[4m{heads}\x1b[0m",
        *rows,
        "",
        "Legend:",
        "",
        "  X    = the GPU itself",
        *legend,
    ]


def _row(joined: Joined, index: int, gpus: int) -> str:
    half = [gpu * 2 // max(gpus, 2) for gpu in range(gpus)]
    paths = [
        SELF if gpu == index else joined.within if half[gpu] == half[index] else joined.between
        for gpu in range(gpus)
    ]
    # Which processors are near is not emulated.
    return "\t".join([f"GPU{index}", *paths, "N/A", str(joined.nodes[half[index]]), "", "N/A"])
