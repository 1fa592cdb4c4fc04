"""A trial in a thread of its own, so that its driver never blocks for longer than it wants."""

import threading
import time
from collections import deque

from orchestrator.files import read_json
from orchestrator.job import StopKind, StopOrder, TrialJob, TrialProgress
from orchestrator.trial import run_trial
from orchestrator.trial_seam import Tools
from sweeps.results import TrialResult

_LOOK_AT_FILE_S = 0.2


class TrialThread:
    """Runs one trial; its driver reads progress, may order a stop, and gets the result."""

    def __init__(self, job: TrialJob, tools: Tools) -> None:
        self._job, self._tools = job, tools
        self._news: deque[TrialProgress] = deque(maxlen=256)
        self._changed = threading.Condition()
        self._order: StopOrder | None = None
        self._looked_at_s = 0.0
        self._result: TrialResult | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"trial {job.number}", daemon=True)

    @property
    def job(self) -> TrialJob:
        """Return what runs."""
        return self._job

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wait(self, wall_s: float) -> list[TrialProgress]:
        """Return the news since the last call; block for at most `wall_s` if there is none."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._news) or self.done, timeout=wall_s)
            news = list(self._news)
            self._news.clear()
        return news

    @property
    def done(self) -> bool:
        """Tell whether the trial has ended."""
        return self._result is not None or self._error is not None

    def result(self) -> TrialResult:
        """Return the result of a trial that has ended. Raises what escaped from it, if anything."""
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise RuntimeError(f"{self._job.trial} still runs")
        return self._result

    def stop(self, order: StopOrder, wall_s: float) -> bool:
        """Order a stop and wait for the end; tell whether it came."""
        self._take(order)
        self._thread.join(timeout=wall_s)
        return not self._thread.is_alive()

    def report(self, progress: TrialProgress) -> None:
        """Take a sign of life from the trial."""
        with self._changed:
            self._news.append(progress)
            self._changed.notify_all()

    def order(self) -> StopOrder | None:
        """Return the order to stop: given here, or left in the trial's folder."""
        now_s = time.monotonic()
        if self._order is None and now_s - self._looked_at_s > _LOOK_AT_FILE_S:
            self._looked_at_s = now_s
            self._take(read_order(self._job))
        return self._order

    def _take(self, order: StopOrder | None) -> None:
        """Keep the first order: one may be given while the other thread looks for one."""
        with self._changed:
            self._order = self._order or order

    def _run(self) -> None:
        try:
            result = run_trial(self._job, self._tools, self)
        except BaseException as error:  # noqa: BLE001 - handed to the driver, which raises it
            self._error = error
        else:
            self._result = result
        with self._changed:
            self._changed.notify_all()


def read_order(job: TrialJob) -> StopOrder | None:
    """Read the order that a driver in another process left for a trial."""
    data = read_json(job.stop_path)
    if data is None:
        return None
    bound = data.get("bound")
    return StopOrder(
        StopKind(str(data["kind"])),
        str(data["reason"]),
        float(bound) if isinstance(bound, int | float) else None,
    )


def order_data(order: StopOrder) -> dict[str, object]:
    """Return what is written for `read_order`."""
    return {"kind": order.kind.value, "reason": order.reason, "bound": order.bound}
