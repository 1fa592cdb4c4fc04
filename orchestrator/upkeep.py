"""What is done for a state folder beside sweeps: leftovers cleared, views made again."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from infra.leftovers import Leftover, LeftoverKind, find_leftovers, remove
from infra.runtime_folder import RuntimeFolderError
from orchestrator.rebuild import Rebuilt, rebuild, rebuild_study
from orchestrator.refusals import bad_option, locked
from orchestrator.search.study import write_study
from orchestrator.state import State
from orchestrator.tracking.tracking_uri import tracking_uri
from orchestrator.tracking.ui_view import EXPERIMENT

logger = logging.getLogger(__name__)


def clear_leftovers(state: State) -> list[Leftover]:
    """Remove what dead sweeps left on this machine; return what was found.

    Those of this state folder are dead, since its lock is ours; others are if nobody holds them.
    """
    try:
        found = find_leftovers(state.sweep_ids())
    except RuntimeFolderError as error:
        raise bad_option("TMPDIR", "", str(error), "Name a folder of your own.") from error
    for leftover in found:
        if not remove(leftover):
            logger.warning("%s could not be removed", leftover.what)
    return found


def rebuild_tracker(state_dir: Path, sweep_id: str | None, store: str | None = None) -> Rebuilt:
    """Make MLflow's store and the study again from what the trials left on disk.

    `store` is the address of the store where a command names one.
    Raises BadInputError.
    """
    state = State(state_dir)
    uri = tracking_uri(state.mlflow_uri, store)
    with locked(state, "rebuild"):
        made = rebuild(state, sweep_id, experiment=EXPERIMENT, uri=uri)
        return replace(made, without_study=rebuild_study(state, made.sweeps, write_study))


def tell_removed(found: Sequence[Leftover]) -> None:
    """Say what an earlier sweep had left running."""
    for leftover in found:
        if leftover.kind is LeftoverKind.PROCESSES:
            logger.warning("an earlier sweep had left %s: ended", leftover.what)


def clean_up(state_dir: Path) -> list[Leftover]:
    """Remove what dead sweeps left: those of a state folder, and any that nobody holds."""
    state = State(state_dir)
    with locked(state, "clean"):
        return clear_leftovers(state)
