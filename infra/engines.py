"""The engines that answer as SGLang, and the launch plan of each."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.redaction import is_secret_name
from infra.secret_refs import is_reference
from infra.sglang.flags import NEWEST, spelled
from infra.sglang.server_keys import KEYS
from sweeps.axes import is_environment
from sweeps.hosts import EngineName, HostSpec
from sweeps.launch import Deadlines, LaunchPlan
from sweeps.values import Value

INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH",
    "XDG_CACHE_HOME", "HF_HOME", "HF_TOKEN", "HF_HUB_CACHE", "SSL_CERT_FILE",
    # What compiled kernels are kept in, from one variant to the next.
    "SGLANG_CACHE_DIR", "SGLANG_JIT_CACHE_DIR", "TRITON_CACHE_DIR",
    "FLASHINFER_WORKSPACE_BASE", "CUDA_CACHE_PATH", "SGLANG_DG_CACHE_DIR",
)  # fmt: skip
"""All that a server may take from the environment of whoever starts it.

Ray sets OMP_NUM_THREADS and CUDA_VISIBLE_DEVICES in its workers; a server must not see those.
"""


KERNELS = "TORCHINDUCTOR_CACHE_DIR"
"""Where compiled kernels are kept."""
_RENDEZVOUS = {"nccl_port", "dist_init_addr"}
"""Flags by which a user says where the ranks of a server meet."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A program with SGLang's command line. Planning is pure: equal in, equal out."""

    name: EngineName
    module: str
    unbuffered: Mapping[str, str]
    inherited: tuple[str, ...] = INHERITED

    def plan(
        self,
        settings: Mapping[str, Value],
        host: HostSpec,
        port: int,
        deadlines: Deadlines,
        *,
        start: int = 0,
        rendezvous_port: int | None = None,
    ) -> LaunchPlan:
        """Turn settings into a command line and an environment for one version of SGLang.

        `start` numbers the starts of a sweep: an emulated host draws the luck of a launch from it.
        """
        version = host.version or NEWEST
        flags = {n: v for n, v in complete(settings).items() if not is_environment(n)}
        renamed = {n: spelled(n, version) for n in flags if spelled(n, version) != n}
        words = [host.python or sys.executable, "-m", self.module]
        for name, value in flags.items():
            if name not in KEYS:
                words += _words(spelled(name, version), value)
        words += ["--host", "127.0.0.1", "--port", str(port)]
        if flags.keys() & _RENDEZVOUS:
            rendezvous_port = None
        if rendezvous_port is not None:
            words += ["--nccl-port", str(rendezvous_port)]
        env = self._environment(settings, host, start)
        secrets = {n: str(flags[n]) for n in KEYS if flags.get(n) is not None}
        secrets |= {n: v for n, v in env.items() if is_secret_name(n) and is_reference(v)}
        return LaunchPlan(
            argv=tuple(words),
            env=tuple(sorted((n, v) for n, v in env.items() if n not in secrets)),
            secrets=tuple(sorted(secrets.items())),
            inherit=self.inherited,
            host="127.0.0.1",
            port=port,
            deadlines=deadlines,
            rendezvous_port=rendezvous_port,
            renamed=tuple(renamed.items()),
        )

    def _environment(
        self, settings: Mapping[str, Value], host: HostSpec, start: int
    ) -> dict[str, str]:
        swept = {n: str(v) for n, v in settings.items() if is_environment(n) and v is not None}
        env = {**self.unbuffered, **_devices(host), **host.env, **swept}
        if self.name is EngineName.EMULATED:
            env |= emulated_environment(host)
            env["EMULATED_SEED"] = str(start)
        return env


ENGINES: dict[EngineName, Engine] = {
    EngineName.SGLANG: Engine(EngineName.SGLANG, "sglang.launch_server", {"PYTHONUNBUFFERED": "1"}),
    EngineName.EMULATED: Engine(
        EngineName.EMULATED,
        "infra.emulated",
        {"PYTHONUNBUFFERED": "1"},
        # It is ours: on a node of Ray that has not got us, this says where we were put.
        (*INHERITED, "PYTHONPATH"),
    ),
}


def _devices(host: HostSpec) -> dict[str, str]:
    """Say which GPUs a server has, in the order of the driver: Ray would say otherwise."""
    if not host.gpus:
        return {}
    listed = ",".join(map(str, range(host.gpus)))
    return {"CUDA_VISIBLE_DEVICES": listed, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def place_variables(temp_folder: Path) -> dict[str, str]:
    """Return what a server is told of this machine, and not of its configuration."""
    # Its default lies in TMPDIR, which each trial has for itself: kernels would not be kept.
    kernels = os.environ.get(KERNELS) or str(Path("~/.cache/torchinductor").expanduser())
    return {"TMPDIR": str(temp_folder), KERNELS: kernels}


def emulated_environment(host: HostSpec) -> dict[str, str]:
    """Return what tells the emulated server what it is; its command line is SGLang's own."""
    env = {
        "EMULATED_TIME_SCALE": f"{host.time_scale:g}",
        "EMULATED_TRUTH": host.truth,
        "EMULATED_GPUS": str(host.gpus),
        "EMULATED_VERSION": host.version,
        "EMULATED_SCENARIO": host.scenario,
        "EMULATED_HOST_FOLDER": host.folder,
    }
    return {name: value for name, value in env.items() if value is not None}


def complete(settings: Mapping[str, Value]) -> dict[str, Value]:
    """Add what SGLang wants to be told: with topk 1, EAGLE drafts a chain of num_steps tokens.

    SGLang takes all three of num_steps, eagle_topk and num_draft_tokens, or none of them.
    """
    full = dict(settings)
    steps, topk = full.get("speculative_num_steps"), full.get("speculative_eagle_topk")
    if topk == 1 and isinstance(steps, int):
        full.setdefault("speculative_num_draft_tokens", steps + 1)
    return full


def resolve_path(path: str, base: Path) -> str:
    """Make a path that starts with a dot or ~ absolute: a server runs in a folder of its own."""
    if path.startswith("~"):
        return str(Path(path).expanduser())
    return str((base / path).absolute()) if path.startswith(".") else path


def _words(flag: str, value: Value) -> list[str]:
    if value is None or value is False:
        return []
    option = "--" + flag.replace("_", "-")
    return [option] if value is True else [option, f"{value:g}" if _is_float(value) else str(value)]


def _is_float(value: Value) -> bool:
    return isinstance(value, float)
