"""The matrix of the driver's program is read, and called what it is."""

import pytest

from infra.emulated.topology import JOINED, matrix_lines
from infra.emulated.truth import TRUTHS
from infra.machine import Interconnect
from infra.probing.links import read_links
from tests.infra.probing.stand_ins import matrix, square


def _mixed() -> list[list[str]]:
    """Two GPUs with a bridge, and two without."""
    paths = square(4, "SYS", "PHB", group=2)
    paths[0][1] = paths[1][0] = "NV4"
    return paths


@pytest.mark.parametrize(
    ("paths", "interconnect", "fully", "kinds", "groups"),
    [
        (square(8, "SYS", "PHB", group=4), "PCIe", False, ("PHB", "SYS"), 2),
        (square(8, "NODE", "PIX", group=2), "PCIe", False, ("PIX", "NODE"), 1),
        (square(4, "PXB"), "PCIe", False, ("PXB",), 1),
        (square(8, "NV18"), "NVSwitch", True, ("NV18",), 1),
        (square(8, "NV12"), "NVSwitch", True, ("NV12",), 1),
        (square(4, "NV4"), "NVLink", True, ("NV4",), 1),
        (square(4, "NV6"), "NVLink", True, ("NV6",), 1),
        (square(2, "NV12"), "NVLink", True, ("NV12",), 1),
        (_mixed(), "NVLink", False, ("NV4", "PHB", "SYS"), 2),
        (square(2, "C2C"), "unknown", False, ("C2C",), 1),
        (square(1, ""), "unknown", False, (), 1),
    ],
)
def test_a_matrix_is_called_what_it_is(
    paths: list[list[str]], interconnect: str, fully: bool, kinds: tuple[str, ...], groups: int
) -> None:
    links = read_links(matrix(paths, nics=2))
    assert [list(row) for row in links.paths] == paths
    assert links.interconnect.value == interconnect
    assert links.fully_linked is fully
    assert links.kinds == kinds
    assert len(links.groups) == groups


def test_numa_nodes_stand_behind_the_network_cards() -> None:
    links = read_links(matrix(square(4, "SYS", "PHB", group=2), numa=["0", "0", "1", "1"], nics=3))
    assert links.numa == ("0", "0", "1", "1")
    assert links.groups == ((0, 1), (2, 3))
    assert links.farthest == "SYS"
    assert read_links(matrix(square(2, "PHB"))).numa == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Failed to initialize NVML: Driver/library version mismatch\n",
        matrix(square(4, "PHB")).replace("GPU2\tPHB", "GPU9\tPHB"),
        matrix(square(2, "PHB")).replace(" X \tPHB", "PHB\tPHB"),
    ],
)
def test_what_is_no_matrix_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="matrix"):
        read_links(text)


def test_every_emulated_machine_shows_what_joins_it() -> None:
    assert JOINED.keys() == TRUTHS.keys()
    for truth in JOINED:
        for gpus in (1, 2, 3, 8):
            assert len(read_links("\n".join(matrix_lines(truth, gpus))).paths) == gpus
    kinds = {t: read_links("\n".join(matrix_lines(t, 8))).interconnect for t in JOINED}
    assert kinds.pop("nvlink") is Interconnect.NVSWITCH
    assert set(kinds.values()) == {Interconnect.PCIE}
    assert len(read_links("\n".join(matrix_lines("M", 8))).groups) == TRUTHS["M"].links.sockets
    assert len(read_links("\n".join(matrix_lines("switch", 8))).groups) == 1
