"""The hosts of the bench: the emulated truths, and hosts drawn at random from published ranges."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from infra.emulated.truth import DRAFT_MODELS, TRUTHS, HostTruth, Kernel, Links, Protocol

DRAWN = "R"
"""What the names of drawn hosts begin with."""
_SPACES = ("joint", "ngram")
PROMPTS = ("code", "reasoning", "chat")
OTHERS = (
    ("switch+ipc", "joint", "code"), ("switch", "ngram", "reasoning"), ("nvlink", "joint", "code"),
    ("nvlink", "ngram", "chat"), ("M", "eagle3", "reasoning"), ("S", "eagle3", "reasoning"),
    ("M+ipc", "nccl", "chat"), ("G", "nccl", "chat"),
)  # fmt: skip
_WEAK, _STRONG = DRAFT_MODELS["kimi-k2-instruct-eagle3"], (0.62, 0.45, 0.35, 0.30, 0.28, 0.26)
_SLOW_SHARE, _IPC_SHARE, _STRONG_SHARE = 0.2, 0.5, 0.4


@dataclass(frozen=True, slots=True)
class Setting:
    """What a sweep meets: a host, a space, a kind of text, and how well EAGLE3's drafts hit."""

    name: str
    truth: HostTruth
    space: str
    prompts: str
    hit_rates: tuple[float, ...]


def main_settings() -> Iterator[Setting]:
    """Yield truths S, M and G with and without a working PCIe-IPC all-reduce, in both spaces."""
    kernel = TRUTHS["M"].links.pcie_ipc
    yield from _others(kernel)
    for name in ("S", "M", "G"):
        for works in (True, False):
            links = replace(TRUTHS[name].links, pcie_ipc=kernel if works else None)
            truth = replace(TRUTHS[name], links=links)
            for space in _SPACES:
                for prompts in PROMPTS:
                    label = f"{name}{'+ipc' if works else ''}/{space}/{prompts}"
                    yield Setting(label, truth, space, prompts, _WEAK)


def _others(kernel: Kernel | None) -> Iterator[Setting]:
    """Yield other hardware, and the spaces that ask for less."""
    for label, space, prompts in OTHERS:
        name = label.removesuffix("+ipc")
        links = TRUTHS[name].links
        if name != "nvlink":
            links = replace(links, pcie_ipc=kernel if label != name else None)
        truth = replace(TRUTHS[name], links=links)
        yield Setting(f"{label}/{space}/{prompts}", truth, space, prompts, _WEAK)


def random_setting(seed: int) -> Setting:
    """Draw a host of this class of hardware, with a space and a kind of text."""
    rng = random.Random(f"host {seed}")
    ipc = Kernel(rng.uniform(3.5, 6.0), rng.uniform(0.06, 0.12))
    links = replace(
        _drawn_links(rng),
        p2p_off_hop=rng.uniform(1.25, 1.6),
        p2p_off_slope=rng.uniform(1.2, 1.6),
        cross_socket_hop=rng.uniform(1.0, 1.3),
        pcie_ipc=ipc if rng.random() < _IPC_SHARE else None,
    )
    expert_ms = 0.0 if rng.random() < 0.2 else rng.uniform(0.08, 0.19)
    truth = replace(
        TRUTHS["M"],
        name=f"{DRAWN}{seed}",
        links=links,
        compute_1_ms=rng.uniform(4.0, 11.0),
        ms_per_extra_expert=expert_ms,
        ms_per_extra_token=rng.uniform(0.0, 0.15),
        expert_overlap=rng.uniform(0.6, 1.0),
        verify_offset_ms=0.0 if rng.random() < 0.6 else rng.uniform(0.0, 9.7),
        ngram_host_ms=rng.uniform(0.8, 2.5),
        eagle_step_ms=rng.uniform(0.4, 1.5),
        eagle_extend_ms=rng.uniform(0.3, 0.8),
    )
    rates = _STRONG if rng.random() < _STRONG_SHARE else _WEAK
    factor = rng.uniform(0.85, 1.15)
    hit_rates = tuple(rate * factor for rate in rates)
    return Setting(truth.name, truth, rng.choice(_SPACES), rng.choice(PROMPTS), hit_rates)


def _drawn_links(rng: random.Random) -> Links:
    """Draw what NCCL reaches: published tables of such hosts differ by a factor of ten."""
    if rng.random() < _SLOW_SHARE:
        flat = Protocol(6.6, rng.uniform(1.5, 3.5), rng.uniform(0.6, 2.0))
        return Links(2, dict.fromkeys(("LL", "LL128", "SIMPLE"), flat), 32.0)
    protocols = {
        "LL": Protocol(6.6, rng.uniform(1.0, 1.4), rng.uniform(0.06, 0.15)),
        "LL128": Protocol(14.0, rng.uniform(1.6, 2.5), 0.05, tree_hop_ratio=1.9 / 2.5),
        "SIMPLE": Protocol(8.4, rng.uniform(2.7, 14.0), 0.04, tree_hop_ratio=4.0 / 5.7),
    }
    most = rng.choice((0.0, 16.0, 32.0, 32.0, 64.0, 448.0))
    return Links(2, protocols, most)
