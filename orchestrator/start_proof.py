"""Asks a server that starts for its health and then for a token, while its watcher looks elsewhere.

A health request may hang for its whole limit, and the first token may take as long as a kernel
compiles; in that time the server may die, and somebody may want the trial to end.
"""

import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from infra.host import Process
from orchestrator.load_client.dialects import DIALECTS
from orchestrator.load_client.seam import ProbeAnswer
from orchestrator.trial_seam import Tools
from sweeps.launch import LaunchPlan

_LEAST_ANSWER_S = 1.0
_VARYING = re.compile(r"\b[0-9a-f-]{8,}\b|\d+")
"""Names of requests and counts, which differ where the fault is the same."""
_Answer = TypeVar("_Answer", bool, ProbeAnswer)


class StartProof:
    """One server's proof that it serves. Asks in a thread of its own, one question at a time.

    One thread uses it, as a context manager; a question that is open at the end is left behind,
    and ends at its own limit or with the server. On a simulated clock, servers answer at once.
    """

    def __init__(
        self, plan: LaunchPlan, process: Process, tools: Tools, dialect: str, health_wall_s: float
    ) -> None:
        self.healthy_at_s: float | None = None
        """When it was first healthy, by the host's clock."""
        self.foreign = False
        """The health is that of another program on the port."""
        self.dialect = dialect
        """The API in which a token came; before that, the one that is asked in."""
        self.unspoken: dict[str, str] = {}
        """APIs that the server does not speak or count in, each with what it said."""
        self.refusal = ""
        """What the server answers whenever it is asked for a token."""
        self.refused_since_s: float | None = None
        """When it began to say so, by the host's clock."""
        self._plan, self._process, self._tools = plan, process, tools
        self._health_wall_s = health_wall_s
        self._strange_answers = 0
        self._asks_token = False
        self._asked: Future[bool] | Future[ProbeAnswer] | None = None
        self._good_news = threading.Event()
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> "StartProof":
        """Make the thread that waits for answers."""
        if self._tools.clock.real_s(1.0):
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="start-proof")
        return self

    def __exit__(self, *_: object) -> None:
        """Let the thread go without waiting for it."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def advance(self, left_s: float) -> bool:
        """Take an answer if there is one, ask the next question; tell whether all is proved.

        `left_s` are the host's seconds until the start must be over: no question outlasts them.
        """
        if self._asked is None:
            self._asked = self._ask(left_s)
        if not self._asked.done():
            return False
        self._good_news.clear()
        answer, self._asked = self._asked.result(), None
        if isinstance(answer, ProbeAnswer):
            self._asks_token = False
            self._judge(answer)
            return bool(answer)
        if not answer or not self._is_ours():
            return False
        if self.healthy_at_s is None:
            self.healthy_at_s = self._tools.clock.now_s()
        self._asks_token = True
        return self.advance(left_s)

    def sleep(self, duration_s: float) -> None:
        """Block for a span of the host's time, or until an answer is good."""
        if self._thread is None:
            self._tools.clock.sleep_s(duration_s)
        else:
            self._good_news.wait(self._tools.clock.real_s(duration_s))

    def _judge(self, answer: ProbeAnswer) -> None:
        """Ask in another API next if this one is not spoken; note what the server keeps saying."""
        same = _VARYING.sub("#", answer.why) == _VARYING.sub("#", self.refusal)
        if not same or not answer.answered:
            self.refusal, self.refused_since_s = "", None
        if not answer and answer.unspoken:
            self.unspoken[self.dialect] = answer.why
            self.dialect = next((d for d in DIALECTS if d not in self.unspoken), self.dialect)
        if not answer and answer.answered and self.refused_since_s is None:
            self.refusal, self.refused_since_s = answer.why, self._tools.clock.now_s()

    def _is_ours(self) -> bool:
        if self._process.listens_on(self._plan.port):
            self._strange_answers = 0
            return True
        # Twice: between the answer and the look the server may have gone.
        self._strange_answers += 1
        self.foreign = self._strange_answers > 1
        return False

    def _ask(self, left_s: float) -> Future[bool] | Future[ProbeAnswer]:
        tools, url, dialect = self._tools, self._plan.url, self.dialect
        if self._asks_token:
            limit_s = max(_LEAST_ANSWER_S, left_s)
            return self._submit(lambda: tools.client.probe(url, dialect, limit_s))
        wall_s = max(_LEAST_ANSWER_S, min(self._health_wall_s, tools.clock.real_s(left_s)))
        return self._submit(lambda: tools.control(url, wall_s).is_healthy())

    def _submit(self, question: "Callable[[], _Answer]") -> "Future[_Answer]":
        if self._thread is not None:
            return self._thread.submit(self._answered, question)
        at_once: Future[_Answer] = Future()
        at_once.set_result(question())
        return at_once

    def _answered(self, question: "Callable[[], _Answer]") -> "_Answer":
        answer = question()
        if answer:
            self._good_news.set()
        return answer
