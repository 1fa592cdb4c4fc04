"""What is mutated, how often, and by which tests it is judged."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

_PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider")
_ALONE = (
    "unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
    sys.executable, "-m", "tests.mutants.first",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """Modules, and the tests that cover them: the fastest come first, as a failure ends the run."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    mutants: int
    limit_s: float
    """Wall seconds after which a run counts as noticed: a mutant may loop for ever."""
    is_alone: bool = False
    """It kills processes: its tests run in a PID namespace of their own, which needs root."""

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command that judges one mutant."""
        return (*(_ALONE if self.is_alone else ()), *_PYTEST, *self.tests)


_SEARCH = tuple(
    f"tests/sweeps/search/test_{name}.py"
    for name in ("evidence", "encoding", "priors", "confirming", "designs", "pool", "feasibility",
                 "favourites",
                 "models", "hosts", "planner", "claims")
)  # fmt: skip
_REBUILD = "tests/orchestrator/test_rebuild.py"

SUBJECTS: Mapping[str, Subject] = {
    "search": Subject(("sweeps/search",), _SEARCH, 130, 240.0),
    "claims": Subject(
        ("sweeps/search/claims.py",),
        ("tests/sweeps/search", "tests/sweeps/reporting/test_story.py"),
        30, 240.0,
    ),
    "stopping": Subject(
        ("orchestrator/early_stop.py", "sweeps/stopping.py"),
        ("tests/sweeps/test_stopping.py", "tests/orchestrator/test_early_stop.py"),
        50, 240.0,
    ),
    "resume": Subject(
        ("orchestrator/continuing.py", "orchestrator/interrupted.py", "orchestrator/spool.py"),
        ("tests/orchestrator/test_continuing.py", "tests/orchestrator/test_interrupted.py",
         "tests/orchestrator/test_state.py",
         "tests/orchestrator/test_files.py",
         "tests/orchestrator/test_untold.py::test_of_a_dead_sweep_those_are_told_that_were_not"),
        40, 240.0,
    ),
    "rebuild": Subject(
        ("orchestrator/rebuild.py",),
        (f"{_REBUILD}::test_what_a_tracker_would_have_been_told_has_the_times_of_then",
         f"{_REBUILD}::test_a_card_of_an_older_sweep_is_made_of_what_is_known",
         f"{_REBUILD}::test_what_was_never_sent_is_read_and_stays_unsent", _REBUILD),
        20, 300.0,
    ),
    "guard": Subject(
        ("infra/guard.py",), ("tests/infra/test_guard.py",), 30, 240.0, is_alone=True
    ),
}  # fmt: skip
