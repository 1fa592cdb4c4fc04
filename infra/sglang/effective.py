"""What a running SGLang made of its settings: its own account, its log, its processes' environment.

Verified against SGLang 0.5.23: its launcher changes os.environ after its start, which
/proc/PID/environ shows for the schedulers that it spawns and not for itself.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import psutil

from infra.redaction import is_secret_name
from infra.sglang.flags import FLAGS, spelled
from sweeps.axes import is_environment
from sweeps.effects import Mismatch, mismatches
from sweeps.pins import CAPACITY, GRAPHS, MAX_RUNNING
from sweeps.values import Value

ALWAYS_READ = (
    *CAPACITY,
    "prefill_attention_backend", "decode_attention_backend",
    "speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk",
    "speculative_num_draft_tokens", "disable_overlap_schedule", "enable_mixed_chunk",
    "disable_custom_all_reduce", "kv_cache_dtype", "tp_size",
)  # fmt: skip
"""Settings that are told whether or not anybody asked for a value."""

SCHEDULER_TITLE = "sglang::scheduler"

_WATCHED = re.compile(r"(NCCL|SGLANG|CUDA)_\w+|OMP_NUM_THREADS")
_OF_ONE_START = frozenset({"SGLANG_RUN_ID"})
_LONGEST_LINE = 2000
"""The dump of all arguments is longer, and no remark on one of them."""


class Source(StrEnum):
    """Who told the value of a setting; later ones overrule earlier ones."""

    LAUNCHER = "environment of the launcher"
    SCHEDULER = "environment of a scheduler"
    INFO = "server info"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Environments:
    """Watched variables of two processes of a server; empty where they could not be read."""

    launcher: Mapping[str, str] = field(default_factory=dict)
    scheduler: Mapping[str, str] = field(default_factory=dict)
    known: bool = False
    """They were read: a variable that is not there is unset."""


UNREAD = Environments()


@dataclass(frozen=True, slots=True)
class LogChange:
    """A line by which SGLang says that a setting has another value.

    Groups `name` and `value` of the pattern are taken where there are such.
    """

    pattern: re.Pattern[str]
    name: str = ""
    value: Value = None


def _row(pattern: str, name: str = "", value: Value = None) -> LogChange:
    return LogChange(re.compile(pattern, re.IGNORECASE), name, value)


LOG_CHANGES: tuple[LogChange, ...] = (
    # Variables.
    _row(r"over(writ|rid)ing environment variable (?P<name>\w+) from .* to '(?P<value>[^']*)'"),
    _row(r"over(writ|rid)ing environment variable (?P<name>\w+)=(?P<value>\S*)"),
    _row(r"\bsetting (?P<name>(NCCL|SGLANG|CUDA)_\w+)=(?P<value>\S+)"),
    _row(r"(?P<name>(NCCL|SGLANG)_\w+) is set to '?(?P<value>[^'\s]+?)'?[,.\s]"),
    _row(r"(?P<name>NCCL_\w+) set by environment to (?P<value>[^.\s]+)"),
    _row(r"disabling (?P<name>SGLANG_\w+) because", value="0"),
    # Flags.
    _row(r"speculative_num_draft_tokens is set to (?P<value>\d+)", "speculative_num_draft_tokens"),
    _row(r"overriding (?P<name>\w+)=\S+ to (?P<value>\w+)"),
    _row(r"\buses (?P<name>\w+)=(?P<value>\w+); overriding"),
    _row(r"custom ?all[- ]?reduce\w* is disabled", "disable_custom_all_reduce", True),
    _row(r"custom and symmetric-memory all reduce are disabled", "disable_custom_all_reduce", True),
    _row(r"\(custom AR disabled\)", "disable_custom_all_reduce", True),
    _row(r"setup custom ?all[- ]?reduce\w* failed", "disable_custom_all_reduce", True),
    _row(r"setup flashinfer pcie-ipc all-?reduce failed", "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE", "0"),
    _row(r"\bpymscclpp is disabled", "enable_mscclpp", False),
    _row(r"\btorchsymmmemcommunicator: .* not supported", "enable_torch_symm_mem", False),
    _row(r"symmetric-memory all reduce are disabled", "enable_torch_symm_mem", False),
    _row(r"overlap schedule[r \w]* (is|are) (disabled|not implemented)",
         "disable_overlap_schedule", True),
    _row(r"mixed chunked prefill (is|are) disabled", "enable_mixed_chunk", False),
    _row(r"speculative_adaptive disabled", "speculative_adaptive", False),
    _row(r"\bcuda graph is disabled because", "disable_cuda_graph", True),
)  # fmt: skip
"""Read in SGLang 0.5.2 to 0.5.23: srt/server_args.py, srt/arg_groups/*_hook.py,
srt/distributed/parallel_state.py and device_communicators/*.py; the fifth is NCCL's."""


@dataclass(frozen=True, slots=True)
class Account:
    """What a server runs with, by our names, and who said so."""

    settings: dict[str, Value]
    sources: dict[str, str]

    def mismatches(self, requested: Mapping[str, Value]) -> tuple[Mismatch, ...]:
        """List what the server runs otherwise than it was asked to."""
        return mismatches(requested, self.settings, self.sources)


def account(
    info: Mapping[str, object],
    settings: Mapping[str, Value],
    version: str,
    *,
    log: Iterable[str] = (),
    environments: Environments = UNREAD,
) -> Account:
    """Join all that is known. `settings` are those requested; `log` ends before the first request.

    A variable that was asked for and is in no environment is told as None, if any was read.
    """
    names = _flags_of(settings, version)
    found: dict[str, tuple[Value, Source]] = {}
    for source, told in (
        (Source.LAUNCHER, _variables(settings, environments, environments.launcher)),
        (Source.SCHEDULER, environments.scheduler),
        (Source.INFO, {**_told_variables(info), **_told_flags(info, names)}),
        (Source.LOG, _told_in_log(log, names)),
    ):
        found |= {n: (v, source) for n, v in told.items() if _may_show(n, settings)}
    return Account(
        {name: value for name, (value, _) in found.items()},
        {name: source.value for name, (_, source) in found.items()},
    )


def read_environments(
    pid: int, marks: Mapping[str, str], swept: Iterable[str] = ()
) -> Environments:
    """Read the watched variables of a server's launcher and of one of its schedulers.

    `marks` are variables by which our own processes are known: another process that has taken the
    pid, or an emulated pid, tells nothing. Never fails: what cannot be read is unknown.
    """
    asked = frozenset(swept)
    try:
        root = psutil.Process(pid)
        launcher = _environment(root, marks)
        if launcher is None:
            return UNREAD
        children = sorted(root.children(recursive=True), key=_is_scheduler, reverse=True)
        told = (_environment(child, marks) for child in children)
        scheduler = next((env for env in told if env is not None), {})
    except psutil.Error:
        return UNREAD
    return Environments(_watched(launcher, asked), _watched(scheduler, asked), known=True)


def log_changes(
    lines: Iterable[str], table: Sequence[LogChange] = LOG_CHANGES
) -> Iterator[tuple[str, Value]]:
    """Yield each setting that a line says has another value, under SGLang's name."""
    for line in lines:
        for row in table if len(line) <= _LONGEST_LINE else ():
            if match := row.pattern.search(line):
                groups = match.groupdict()
                name = groups.get("name") or row.name
                value = groups.get("value")
                yield name, row.value if value is None else _parsed(name, value)


def parser_accepts(name: str, value: Value, version: str) -> bool:
    """Tell whether the command line of a version takes a value that a server has reported."""
    flag = FLAGS.get(spelled(name, version))
    if flag is None or not flag.exists_in(version):
        return False
    if not isinstance(value, flag.kind) or isinstance(value, bool) is not (flag.kind is bool):
        return False
    choices = flag.choices_in(version)
    in_range = flag.low is None or not isinstance(value, int | float) or value >= flag.low
    return in_range and (not choices or value in choices)


def _flags_of(settings: Mapping[str, Value], version: str) -> dict[str, str]:
    """Map each flag of ours to the key under which a version reports it."""
    asked = (name for name in (*ALWAYS_READ, *settings) if not is_environment(name))
    keys = {name: spelled(name, version) for name in asked}
    return {
        name: FLAGS[key].stands_for(version) or key for name, key in keys.items() if key in FLAGS
    }


def _told_flags(info: Mapping[str, object], names: Mapping[str, str]) -> dict[str, Value]:
    told = {name: _plain(info[key]) for name, key in names.items() if key in info}
    states = _states(info)
    limits = [state.get("effective_max_running_requests_per_dp") for state in states]
    whole = [limit for limit in limits if isinstance(limit, int)]
    if whole:
        told[MAX_RUNNING] = sum(whole)  # one state for each data-parallel rank
    graphs = _graph_batch(info, states)
    if told.get(GRAPHS) is None and graphs is not None:
        told[GRAPHS] = graphs
    return told


def _graph_batch(info: Mapping[str, object], states: Sequence[Mapping[str, object]]) -> int | None:
    """Return the largest decode batch with a graph: as captured (0.5.20), else as planned."""
    captured = [state.get("decode_cuda_graph_bs") for state in states]
    if any(isinstance(sizes, list) for sizes in captured):
        sizes = [n for one in captured if isinstance(one, list) for n in one if type(n) is int]
        return max(sizes, default=None)
    config = info.get("cuda_graph_config")
    decode = config.get("decode") if isinstance(config, dict) else None
    if not isinstance(decode, dict) or decode.get("backend") == "disabled":
        return None
    largest = decode.get("max_bs")
    return largest if type(largest) is int else None


def _told_variables(info: Mapping[str, object]) -> dict[str, str]:
    """Return the variables that a server tells itself, if SGLANG_EXPOSE_OWN_ENV_VARS is set."""
    found: dict[str, str] = {}
    for state in _states(info):
        told = state.get("env_vars")
        if isinstance(told, dict):
            found |= {str(name): str(value) for name, value in told.items()}
    return found


def _told_in_log(lines: Iterable[str], names: Mapping[str, str]) -> dict[str, Value]:
    ours = {flag: name for name, flag in names.items()}
    return {ours.get(name, name): value for name, value in log_changes(lines)}


def _variables(
    settings: Mapping[str, Value], environments: Environments, launcher: Mapping[str, str]
) -> dict[str, Value]:
    asked = [name for name in settings if is_environment(name)]
    unset: dict[str, Value] = dict.fromkeys(asked) if environments.known else {}
    return {**unset, **launcher}


def _may_show(name: str, settings: Mapping[str, Value]) -> bool:
    if is_secret_name(name):
        return False
    if is_environment(name):
        return name in settings or (bool(_WATCHED.fullmatch(name)) and name not in _OF_ONE_START)
    return name in settings or name in ALWAYS_READ or name in FLAGS


def _watched(environment: Mapping[str, str], asked: frozenset[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if not is_secret_name(name) and (name in asked or _WATCHED.fullmatch(name))
    }


def _environment(process: psutil.Process, marks: Mapping[str, str]) -> dict[str, str] | None:
    """Return the environment of a process of ours; None of any other."""
    try:
        environment = process.environ()
    except psutil.Error:
        return None
    return environment if marks.items() <= environment.items() else None


def _is_scheduler(process: psutil.Process) -> bool:
    try:
        return " ".join(process.cmdline()[:1]).startswith(SCHEDULER_TITLE)
    except psutil.Error:
        return False


def _states(info: Mapping[str, object]) -> list[Mapping[str, object]]:
    states = info.get("internal_states")
    return [s for s in states if isinstance(s, dict)] if isinstance(states, list) else []


def _plain(value: object) -> Value:
    """Return a scalar as it is, a list as a command line has it, and nothing of what is deeper."""
    if isinstance(value, list):
        return " ".join(map(str, value)) or None
    return value if isinstance(value, str | int | float | bool) else None


def _parsed(name: str, text: str) -> Value:
    """Read a value in a log line; variables hold text."""
    if is_environment(name):
        return text
    flag = FLAGS.get(name)
    if flag is None or flag.kind is str:
        return None if text == "None" else text
    if flag.kind is bool:
        return text == "True"
    try:
        return int(text) if flag.kind is int else float(text)
    except ValueError:
        return text
