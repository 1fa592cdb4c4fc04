"""Puts the parts of a sweep together: what its search knows of the hosts, and who is told."""

from collections.abc import Mapping, Sequence

from infra.probing.facts import HostFacts
from infra.sglang.flags import NEWEST
from orchestrator.foretelling import LateAccepts
from orchestrator.health import RETRYABLE, SweepHealth
from orchestrator.recorder import accept_source
from orchestrator.screening import refusals, timed_all_reduces
from orchestrator.search.known import KnownHost, KnownRules
from orchestrator.search.study import StudySearch
from orchestrator.state import State
from orchestrator.sweep_run import Attendants, Past, SweepRun
from sweeps.again import to_try_again
from sweeps.results import TrialResult
from sweeps.search.brief import Foresight
from sweeps.sweep import Sweep


def make_run(
    sweep_id: str, sweep: Sweep, state: State, facts: Mapping[str, HostFacts],
    attendants: Attendants, aside: Sequence[TrialResult] = (),
) -> SweepRun:  # fmt: skip
    """Return a sweep that is ready to be driven, what earlier runs of it measured included.

    `facts` are those of its hosts, by name; `aside` are trials that an edit of the space left out.
    """
    results = state.results(sweep_id)
    health = SweepHealth(sweep, len(results))
    hosts = [KnownHost(name, found.version, found.machine) for name, found in facts.items()]
    fingerprints = {name: found.fingerprint for name, found in facts.items()}
    screened = refusals(state, fingerprints)
    foresight = Foresight(
        _accepts(sweep, state), all_reduces=timed_all_reduces(state, fingerprints)
    )
    guide = KnownRules(sweep, hosts, lambda c: health.why_closed(c) or screened(c), foresight)
    search = StudySearch(
        sweep, state.study_path, sweep_id, results, guide,
        again=to_try_again(results, RETRYABLE), first_number=state.next_number(sweep_id),
    )  # fmt: skip
    past = Past(results, sum(result.gpu_hours for result in aside))
    return SweepRun(sweep_id, sweep, state, search, attendants, health, fingerprints, past)


def _accepts(sweep: Sweep, state: State) -> LateAccepts:
    """Return who knows accept lengths once plain decode of such a sweep was recorded."""
    host = sweep.hosts[0]
    version = host.version or NEWEST
    return LateAccepts(
        state.recordings_path,
        lambda: accept_source(state, sweep, version, emulated=host.emulated),
    )
