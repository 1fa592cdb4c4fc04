"""What a command refuses before it starts anything: an option, or a folder that is in use."""

from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.state import State, StateInUseError, StateUnusableError
from sweeps.problems import BadInputError, Problem


def bad_option(field: str, value: str, why: str, mend: str) -> BadInputError:
    """Return the error about an option of the command line."""
    return BadInputError("The command line", [Problem(field, value, why, mend)])


@contextmanager
def locked(state: State, who: str) -> Iterator[None]:
    """Hold a state folder for one command, which works for it. Raises BadInputError."""
    from infra import reaper  # psutil is slow to import, and `check` locks nothing

    try:
        with state.lock(who), reaper.working_for(state.identity()):
            yield
    except StateInUseError as error:
        mend = "Wait for it, or use another --state-dir."
        raise bad_option("--state-dir", str(state.root), f"in use by {error}", mend) from error
    except StateUnusableError as error:
        mend = "Use another --state-dir."
        raise bad_option("--state-dir", str(state.root), str(error), mend) from error
