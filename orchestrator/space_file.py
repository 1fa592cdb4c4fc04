"""Reads a space file, which is Python, and refuses what cannot be swept before anything starts."""

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from infra.emulated.scenario_file import ScenarioError, read_scenario
from infra.emulated.truth import TRUTHS
from infra.engines import resolve_path
from infra.gpus import count_gpus
from infra.sglang.flags import NEWEST
from infra.sglang.joint_rules import joint_problems
from infra.sglang.probe import missing_sglang
from infra.sglang.server_keys import unresolved
from infra.sglang.setting_checks import setting_problems
from orchestrator.choices import AS_WRITTEN, HostChoice, Sent
from orchestrator.dialect_choice import with_dialect
from orchestrator.search.needs import sampler_problems
from sweeps.hosts import EngineName, HostSpec
from sweeps.problems import BadInputError, Problem, nearest
from sweeps.shapes import shape_problems
from sweeps.sweep import Sweep, missing_model
from sweeps.value_checks import value_problems
from sweeps.workloads import FILE


def load_sweep(path: Path) -> Sweep:
    """Run a space file and return its `sweep`. Raises BadInputError; the file is trusted code."""
    if not path.is_file():
        near = nearest(path.name, [p.name for p in path.parent.glob("*.py")])
        raise _bad(path, "file", str(path), "there is no such file", near or "Check the path.")
    module = _run(path)
    sweep = getattr(module, "sweep", None)
    if sweep is None:
        mend = "End the file with `sweep = Sweep(...)`."
        raise _bad(path, "sweep", "missing", "the file defines no sweep", mend)
    if not isinstance(sweep, Sweep):
        mend = "Make it of `sweeps.Sweep`."
        raise _bad(path, "sweep", type(sweep).__name__, "that is no Sweep", mend)
    _refuse_unsound(sweep, path)
    return sweep


def _refuse_unsound(sweep: Sweep, path: Path) -> None:
    """Refuse a sweep of which nothing can be settled, nor any host asked."""
    if [*shape_problems(sweep)] or value_problems(sweep) or sweep.space.structure_problems():
        raise BadInputError(str(path), sweep.problems())


def prepare(sweep: Sweep, path: Path, choice: HostChoice = AS_WRITTEN) -> Sweep:
    """Settle hosts and paths, and check the sweep against them. Raises BadInputError with all."""
    if choice.sent is not None:
        sweep = as_sent(sweep, choice.sent)
    _refuse_unsound(sweep, path)
    gpus = count_gpus()
    hosts = tuple(settle_host(host, choice, gpus) for host in sweep.hosts)
    model = replace(sweep.model, path=resolve_path(sweep.model.path, Path.cwd()))
    settled = replace(sweep, hosts=hosts, model=model)
    settled, wrong = with_dialect(settled)
    found = [*sweep.problems(), *sampler_problems(sweep.sampler), *wrong]
    for host in hosts:
        found += _host_problems(settled, host, gpus)
    if found:
        unique = {str(problem): problem for problem in found}
        raise BadInputError(str(path), list(unique.values()))
    return replace(settled, workload=settled.workload.settled(Path.cwd()))


def as_sent(sweep: Sweep, sent: Sent) -> Sweep:
    """Return a sweep from another machine as it is meant here.

    The inventory there says what this host is; what the file alone knows of a host is kept.
    """
    before = sweep.hosts[0]
    scenario = before.scenario and sent.files.get(before.scenario, before.scenario)
    host = replace(
        sent.host,
        engine=before.engine if sent.host.engine is EngineName.AUTO else sent.host.engine,
        python=sent.host.python or before.python,
        version=before.version,
        env={**before.env, **sent.host.env},
        scenario=scenario,
    )
    prompts = sweep.workload.file
    moved = prompts and sent.files.get(str(prompts))
    workload = replace(sweep.workload, prompts=f"{FILE}{moved}") if moved else sweep.workload
    return replace(sweep, hosts=(host,), workload=workload)


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"space_file_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise _bad(path, "file", path.name, "it is no Python file", "Give it the ending .py.")
    module = importlib.util.module_from_spec(spec)
    written, places = sys.dont_write_bytecode, list(sys.path)
    sys.dont_write_bytecode = True
    # Modules beside it are found, as by Python itself, wherever the command is given.
    sys.path.insert(0, str(path.absolute().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file raises is a fault of the file
        raise _bad(path, *_where(path, error)) from error
    finally:
        sys.dont_write_bytecode, sys.path[:] = written, places
    return module


def _where(path: Path, error: Exception) -> tuple[str, str, str, str]:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}", (error.text or "").strip(), error.msg, "Mend the syntax."
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    line = frames[-1] if frames else None
    field = f"line {line.lineno}" if line else "file"
    value = (line.line or "") if line else path.name
    return field, value, f"it raises {type(error).__name__}: {error}", "Mend that line."


def settle_host(host: HostSpec, choice: HostChoice, gpus: int) -> HostSpec:
    """Return a host with its engine chosen and its paths absolute; `gpus` are those found here."""
    chosen = choice.engine if choice.engine is not EngineName.AUTO else host.engine
    if chosen is EngineName.AUTO:
        chosen = EngineName.SGLANG if gpus else EngineName.EMULATED
    emulated = chosen is EngineName.EMULATED
    python = None if host.python is None else resolve_path(host.python, Path.cwd())
    scenario = choice.scenario or host.scenario
    return replace(
        host,
        engine=chosen,
        python=None if emulated else python,
        truth=choice.truth or host.truth,
        time_scale=choice.time_scale or host.time_scale,
        scenario=str(Path(scenario).absolute()) if emulated and scenario else None,
        env={name: resolve_path(value, Path.cwd()) for name, value in host.env.items()},
    )


def _host_problems(sweep: Sweep, host: HostSpec, gpus: int) -> list[Problem]:
    version = host.version or NEWEST
    found = setting_problems(sweep.all_values(), version)
    if not host.elsewhere:
        found += unresolved(sweep.fixed)
    if not found:
        found += joint_problems(sweep.settings(sweep.space.plain()), version)
    field = f"hosts.{host.name}"
    if host.engine is EngineName.EMULATED:
        return [*found, *emulation_problems(host, field)]
    if host.elsewhere:
        return found
    if host.gpus > gpus:
        why = f"it asks for {host.gpus} GPUs and this machine has {gpus}"
        mend = "Run it where the GPUs are; `sweep --engine emulated` tries it without."
        found.append(Problem(f"{field}.gpus", str(host.gpus), why, mend))
    python = host.python or sys.executable
    if why := missing_sglang(python):
        mend = "Name the interpreter that SGLang is installed for (`make sweep-real` builds one)."
        found.append(Problem(f"{field}.python", python, why, mend))
    missing = missing_model(sweep.model)
    return [*found, missing] if missing else found


def emulation_problems(host: HostSpec, field: str) -> Iterator[Problem]:
    """Check what an emulated host is told."""
    if host.time_scale <= 0:
        scale = f"{host.time_scale:g}"
        yield Problem(f"{field}.time_scale", scale, "time must run forwards", "Use 1 or more.")
    if host.truth not in TRUTHS:
        mend = f"There are {', '.join(TRUTHS)}."
        yield Problem(f"{field}.truth", host.truth, "there is no such emulated host", mend)
    if host.scenario:
        try:
            read_scenario(Path(host.scenario))
        except ScenarioError as error:
            yield Problem(f"{field}.scenario", host.scenario, str(error), "Mend the file.")


def _bad(path: Path, field: str, value: str, why: str, mend: str) -> BadInputError:
    return BadInputError(str(path), [Problem(field, value, why, mend)])
