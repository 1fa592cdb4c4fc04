"""The stand-ins: tree logic against a plain restatement, and imports as SGLang makes them."""

import importlib.util
import subprocess
import sys
from itertools import pairwise
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.sglang_cpu import layout


def _load_tree_module() -> ModuleType:
    # By its file: the package around it imports torch.
    path = layout.STAND_INS / "sgl_kernel" / "_tree.py"
    spec = importlib.util.spec_from_file_location("stand_in_tree", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TREE = _load_tree_module()
TOKENS = st.integers(0, 3)


@st.composite
def _parents(draw: st.DrawFn) -> list[int]:
    count = draw(st.integers(1, 9))
    return [-1, *(draw(st.integers(0, node - 1)) for node in range(1, count))]


def _line_to_root(parents: list[int], node: int) -> list[int]:
    return [] if node < 0 else [*_line_to_root(parents, parents[node]), node]


def _mask(parents: list[int]) -> list[list[bool]]:
    nodes = range(len(parents))
    return [[other in _line_to_root(parents, node) for other in nodes] for node in nodes]


def _linked_children(first: list[int], sibling: list[int], parent: int) -> list[int]:
    found, node = [], first[parent]
    while node >= 0:
        found.append(node)
        node = sibling[node]
    return found


@given(_parents())
def test_links_give_back_the_tree_of_a_mask(parents: list[int]) -> None:
    read, depths = TREE.parents_and_depths(_mask(parents))
    assert read == parents
    assert depths == [len(_line_to_root(parents, node)) - 1 for node in range(len(parents))]
    first, sibling = TREE.first_children(read), TREE.next_siblings(read)
    for parent in range(len(parents)):
        children = [node for node, above in enumerate(parents) if above == parent]
        assert _linked_children(first, sibling, parent) == children


@given(_parents(), st.data())
def test_the_accepted_path_is_the_one_that_greedy_decoding_takes(
    parents: list[int], data: st.DataObject
) -> None:
    nodes = len(parents)
    drafts = data.draw(st.lists(TOKENS, min_size=nodes, max_size=nodes))
    target = data.draw(st.lists(TOKENS, min_size=nodes, max_size=nodes))
    limit = data.draw(st.integers(1, nodes))
    first, sibling = TREE.first_children(parents), TREE.next_siblings(parents)
    path = TREE.greedy_path(drafts, first, sibling, target, limit)
    assert path == _line_to_root(parents, path[-1])
    assert all(drafts[node] == target[above] for above, node in pairwise(path))
    if len(path) < limit:
        last = path[-1]
        assert target[last] not in [drafts[n] for n in range(nodes) if parents[n] == last]


def _run(code: str) -> None:
    bare = [sys.executable, "-S", "-c", code]  # without site-packages: no real package can help
    run = subprocess.run(
        bare, env={"PYTHONPATH": str(layout.STAND_INS)}, capture_output=True, text=True, timeout=30
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import triton.language as tl; tl.constexpr | None; tl.load(0)",
        "from triton.runtime.autotuner import Autotuner\nclass Mine(Autotuner): pass\nMine(1, a=2)",
        "import triton\n@triton.jit\ndef kernel(): return 7\nassert kernel() == 7",
        "import triton\n@triton.autotune(configs=[triton.Config({})], key=[])\n"
        "def kernel(): return 7\nassert kernel() == 7",
        "import triton; assert triton.cdiv(7, 2) == 4; assert triton.next_power_of_2(5) == 8",
        "import torchvision.transforms.v2.functional as f, torchvision.io\n"
        "from torchvision.transforms import Compose, InterpolationMode\n"
        "from torchvision.transforms.v2 import Resize; Compose([]); Resize(1); f.resize",
    ],
)
def test_the_import_only_stand_ins_allow_what_is_done_at_import(code: str) -> None:
    _run(code)


def test_a_stand_in_refuses_to_work() -> None:
    _run(
        "import torchvision.io\n"
        "try: torchvision.io.read_image('x')\n"
        "except NotImplementedError: pass\n"
        "else: raise SystemExit(1)"
    )
