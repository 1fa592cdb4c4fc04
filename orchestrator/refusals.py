"""What a command refuses before it starts anything: an option, or a folder that is in use."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.emulated.scenario_file import read_scenario
from orchestrator.state import State, StateInUseError, StateUnusableError
from sweeps.problems import BadInputError, Problem
from sweeps.sweep import Sweep


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


def refuse_simulation(sweep: Sweep, source: Path) -> None:
    """Refuse what cannot live on a simulated clock in this process. Raises BadInputError."""
    from infra.emulated.in_process import unsimulated  # only who simulates pays for it

    real = [host for host in sweep.hosts if not host.emulated]
    if real:
        why = "only an emulated host can live on a simulated clock"
        mend = "Add `--engine emulated`, or leave out `--driver simulated`."
        problem = Problem(f"hosts.{real[0].name}.engine", real[0].engine.value, why, mend)
        raise BadInputError(str(source), [problem])
    why = "a server on a simulated clock has no process and no connection for that"
    mend = "Take it out, or use `--driver serial`."
    beyond = [
        Problem(f"hosts.{host.name}.scenario", name, why, mend)
        for host in sweep.hosts
        if host.scenario
        for name in unsimulated(read_scenario(Path(host.scenario)))
    ]
    if beyond:
        raise BadInputError(str(source), beyond)
