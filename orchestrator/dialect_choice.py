"""Through which API the servers of a sweep are measured: one that the SGLang of all hosts has."""

from dataclasses import replace

from infra.sglang.flags import NEWEST
from infra.sglang.protocol import Load, dialect_problems, fitting_dialect
from sweeps.problems import Problem
from sweeps.sweep import Sweep
from sweeps.workloads import DEFAULT_DIALECT


def load_of(sweep: Sweep) -> Load:
    """Return what of a sweep decides through which API its servers can be measured."""
    drafters = sweep.all_values().get("speculative_algorithm", ())
    return Load(
        {host.name: host.version or NEWEST for host in sweep.hosts},
        is_sampled=_is_sampled(sweep.workload.temperature),
        is_drafting=any(drafter is not None for drafter in drafters),
    )


def _is_sampled(temperature: object) -> bool:
    return isinstance(temperature, int | float) and temperature > 0


def with_dialect(sweep: Sweep) -> tuple[Sweep, list[Problem]]:
    """Choose the API that all hosts have, where nobody named one, and check the one that is named.

    What is open and was chosen before stays as it was, if it can be spoken.
    """
    load, workload = load_of(sweep), sweep.workload
    if not workload.leaves_dialect_open:
        return sweep, dialect_problems(load, workload.dialect)
    chosen = fitting_dialect(load)
    if not chosen:
        return sweep, dialect_problems(load, chosen)
    return replace(sweep, workload=workload.speaking(chosen)), []


def dialect_notes(sweep: Sweep) -> tuple[str, ...]:
    """Say what to know of the API that the servers of a sweep are measured through, if anything."""
    load, dialect = load_of(sweep), sweep.workload.dialect
    if untold := load.untold(dialect):
        other = fitting_dialect(load)
        mend = "" if load.untold(other) else f" `{other}` tells them."
        return (f"Through `{dialect}` accept lengths stay unknown: {'; '.join(untold)}.{mend}",)
    if dialect == DEFAULT_DIALECT:
        return ()
    whys = load.lacking(DEFAULT_DIALECT) or load.untold(DEFAULT_DIALECT)
    if whys and sweep.workload.leaves_dialect_open:
        return (f"Measured through `{dialect}`: {'; '.join(whys)}, so not `{DEFAULT_DIALECT}`.",)
    return ()
