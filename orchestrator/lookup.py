"""Which sweep, and which trials, a command means."""

from orchestrator.explain import BEST, find_trial
from orchestrator.refusals import bad_option
from orchestrator.state import State
from sweeps.problems import nearest
from sweeps.results import TrialResult


def known_sweep(state: State, sweep_id: str | None, *, verifications: bool = False) -> str:
    """Return a sweep that is there, the newest if none is named. Raises BadInputError.

    Verifications are sweeps too; only who watches means the newest of these as well.
    """
    ids = state.sweep_ids()
    if sweep_id is not None and not state.card(sweep_id):
        mend = nearest(sweep_id, ids) or "`orchestrator trials` lists them."
        raise bad_option("--sweep", sweep_id, "there is no such sweep", mend)
    if not ids:
        root = str(state.root)
        raise bad_option("--state-dir", root, "no sweep lies there", "Run a sweep first.")
    searches = [one for one in ids if verifications or not state.card(one).get("verifies")]
    return sweep_id or (searches or ids)[-1]


def known_trial(state: State, trial: str, sweep_id: str | None) -> TrialResult | None:
    """Find a trial by its id; `best` and bare numbers are those of the newest sweep.

    None where a sweep has no best trial. Raises BadInputError.
    """
    one = known_sweep(state, sweep_id)
    is_of_one = sweep_id is not None or trial == BEST or trial.isdecimal()
    return find_trial(state, trial, [one] if is_of_one else state.sweep_ids())
