"""Looks at a sweep from outside: reads its state folder and nothing else, and writes nothing."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.local_host import tail
from orchestrator.cards import hours_unit_in
from orchestrator.clocks import clock_scales
from orchestrator.events import Tally
from orchestrator.files import read_result
from orchestrator.goals import answer_in, goal_of
from orchestrator.state import RESULT_FILE, SPOOL_FILE, State
from orchestrator.tallying import tally_of
from orchestrator.watching.driver_life import is_held
from orchestrator.watching.spool_tail import SpoolTail
from orchestrator.watching.sweep_status import DIED, RUNNING, EndedTrial, RunningTrial, SweepStatus
from sweeps.ledger import Ledger, ledger
from sweeps.metrics import known_metric
from sweeps.naming import label
from sweeps.ranking import Standing
from sweeps.results import TrialResult
from sweeps.sweep import Objective

WARNINGS_SHOWN = 5
_LOG_LINES = 400
_LEVELS = (" WARNING ", " ERROR ", " CRITICAL ")


@dataclass(frozen=True, slots=True)
class _Leaders:
    """What leads, and the plain decode beside it."""

    best: EndedTrial | None
    plain: EndedTrial | None
    certainty: str = ""


class Watcher:
    """Follows one sweep of any driver; each look costs what has changed since the last one.

    Used by one thread at a time.
    """

    def __init__(self, state: State, sweep_id: str) -> None:
        self._state, self._sweep_id = state, sweep_id
        self._results: dict[Path, tuple[int, TrialResult]] = {}
        self._tails: dict[Path, SpoolTail] = {}
        self._ledger = Ledger({}, {})
        self._aside: frozenset[int] = frozenset()

    def look(self) -> SweepStatus:
        """Return where the sweep stands now."""
        card: Mapping[str, Any] = self._state.card(self._sweep_id)
        status = str(card.get("status", RUNNING))
        if status == RUNNING and not is_held(self._state.root / "lock"):
            status = DIED
        self._aside = self._state.set_aside(self._sweep_id)
        if self._read_trials():
            self._ledger = ledger(
                self._known, clock_scales(card), collapsed=int(card.get("collapsed", 0))
            )
        goal = goal_of(card)
        tally = self._tally(card, goal, is_running=status == RUNNING)
        plain = card.get("plain", {})
        leaders = self._leaders(card, tally, is_over=status not in (RUNNING, DIED))
        return SweepStatus(
            sweep=self._sweep_id,
            name=str(card.get("name", self._sweep_id)),
            status=status,
            emulated=card.get("emulated") is True,
            hosts=tuple(str(host["name"]) for host in card.get("hosts", [])),
            metric=goal.metric,
            unit=known_metric(goal.metric).unit,
            created_at=str(card.get("created_at", "")),
            done=tally.trials_done,
            planned=card.get("trials"),
            outcomes=dict(Counter(result.outcome.value for result in self._known)),
            gpu_hours=tally.gpu_hours,
            hours_unit=tally.hours_unit,
            left_s=tally.left_s,
            leader=leaders.best,
            plain=leaders.plain,
            certainty=leaders.certainty,
            spent_gpu_hours=self._ledger.spent,
            saved_gpu_hours=self._ledger.saved,
            running=tuple(self._running(card, status)),
            ended=tuple(_ended(result, goal, plain) for result in self._known),
            warnings=tuple(self._warnings()),
        )

    def _leaders(self, card: Mapping[str, Any], tally: Tally, *, is_over: bool) -> _Leaders:
        """Return the best trials so far; of a sweep that has ended, what it recommends and what
        plain decode that is over, each with its rate over its starts."""
        goal, plain, known = goal_of(card), card.get("plain", {}), self._known
        answer = answer_in(card, known) if is_over else None
        if answer is None:
            best, base = tally.incumbent, tally.plain
            return _Leaders(
                None if best is None else _ended(best, goal, plain),
                None if base is None else _ended(base, goal, plain),
            )
        by_trial = {result.trial: result for result in known}

        def told(standing: Standing | None) -> EndedTrial | None:
            if standing is None:
                return None
            one = _ended(by_trial[standing.used[-1]], goal, plain)
            return replace(one, value=standing.value, low=standing.low, high=standing.high)

        return _Leaders(told(answer.standing), told(answer.plain), answer.certainty)

    @property
    def _known(self) -> list[TrialResult]:
        """Return the trials that count: not those that an edit of the space has set aside."""
        return [result for _, result in self._results.values() if result.number not in self._aside]

    def _read_trials(self) -> bool:
        """Take in what is new of results and spools; tell whether a result is."""
        is_new = False
        for folder in self._folders():
            path = folder / RESULT_FILE
            stamp = _stamp(path)
            if stamp is None:
                self._tails.setdefault(folder, SpoolTail(folder / SPOOL_FILE)).look()
            elif folder not in self._results or self._results[folder][0] != stamp:
                if (result := read_result(path)) is None:
                    continue
                self._results[folder] = (stamp, result)
                self._tails.pop(folder, None)
                is_new = True
        return is_new

    def _folders(self) -> list[Path]:
        found = self._state.sweep_folder(self._sweep_id).absolute().glob("trials/*/")
        return sorted(found, key=lambda path: (len(path.name), path.name))

    def _tally(self, card: Mapping[str, Any], goal: Objective, *, is_running: bool) -> Tally:
        planned, done_before = card.get("trials"), int(card.get("done_before", 0))
        aside = [r for _, r in self._results.values() if r.number in self._aside]
        aside_gpu_hours = sum(result.gpu_hours for result in aside)
        tally = tally_of(
            self._known, goal, planned or 0, done_before, _age_s(card), aside_gpu_hours,
            hours_unit_in(card),
        )  # fmt: skip
        if is_running and planned:
            return tally
        return replace(tally, trials_planned=planned or 0, left_s=None)

    def _running(self, card: Mapping[str, Any], status: str) -> Iterator[RunningTrial]:
        scales = _scales(card)
        for folder, seen in self._tails.items():
            head = seen.head
            host = head.host if head else ""
            on_s = seen.silent_s * scales.get(host, 0.0) if status == RUNNING else 0.0
            yield RunningTrial(
                trial=head.trial if head else f"{self._sweep_id}-{folder.name}",
                number=head.number if head else int(folder.name),
                name=label(head.config, card.get("plain", {})) if head else "",
                purpose=head.purpose if head else "",
                why=head.why if head else "",
                host=host,
                phase=seen.phase,
                detail=seen.detail,
                elapsed_s=seen.elapsed_s + on_s,
                silent_s=seen.silent_s,
                tok_s=seen.last.tok_s,
                low=seen.last.low,
                high=seen.last.high,
                accept_length=seen.last.accept_length,
                steps_per_s=seen.last.steps_per_s,
                tokens=seen.last.tokens,
                curve=tuple(seen.curve),
            )

    def _warnings(self) -> list[str]:
        lines = tail(self._state.sweep_folder(self._sweep_id) / "driver.log", _LOG_LINES)
        found = [line for line in lines if any(level in line for level in _LEVELS)]
        return found[-WARNINGS_SHOWN:]


def _ended(result: TrialResult, goal: Objective, plain: Mapping[str, Any]) -> EndedTrial:
    estimate = result.estimates.get(goal.metric)
    return EndedTrial(
        trial=result.trial,
        number=result.number,
        name=label(result.config, plain),
        purpose=result.purpose,
        outcome=result.outcome.value,
        value=None if estimate is None else estimate.value,
        low=None if estimate is None else estimate.low,
        high=None if estimate is None else estimate.high,
        provisional=estimate is not None and estimate.provisional,
        bound=result.bound,
        accept_length=result.value("accept_length"),
        reason=result.reason,
    )


def _stamp(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _age_s(card: Mapping[str, Any]) -> float:
    """Return the wall seconds since the sweep was last begun; 0 where that is not on record."""
    try:
        began = datetime.fromisoformat(str(card.get("began_at")))
    except ValueError:
        return 0.0
    return max(0.0, (datetime.now(UTC) - began).total_seconds())


def _scales(card: Mapping[str, Any]) -> dict[str, float]:
    """Return how fast the clock of each host runs; a simulated one has no share in our time."""
    scales = clock_scales(card)
    return {name: scale for name, scale in scales.items() if scale is not None}


def changes(watcher: Watcher, period_s: float) -> Iterator[SweepStatus]:
    """Yield where a sweep stands at once, and again whenever that has changed, to its end."""
    told = None
    while True:
        seen = watcher.look()
        if what_counts(seen) != told:
            told = what_counts(seen)
            yield seen
        if not seen.is_running:
            return
        time.sleep(period_s)


def what_counts(seen: SweepStatus) -> object:
    """Return what makes two looks different: not that time has passed."""
    running = [
        (one.trial, one.phase, one.detail, one.tok_s, one.tokens, len(one.curve))
        for one in seen.running
    ]
    return seen.status, running, seen.ended, seen.warnings
