"""What is asked of a server: prompts, sampling and how long to measure."""

import random
from dataclasses import dataclass

from sweeps.problems import Problem, nearest
from sweeps.prompts import Prompt, prompts_of
from sweeps.values import digest

_TOPICS = (
    "a queue that two threads share", "a cache that forgets its oldest entry", "a parser for dates",
    "a rate limiter for an API", "a graph of build targets", "an index of log lines by hour",
    "a tree of folders and their sizes", "a table of prices by currency", "a spell checker",
    "a planner of train connections", "a simulation of a lift", "a store of user sessions",
    "a counter of words in a stream", "a matcher for file names", "a scheduler of backups",
    "a diff of two configuration files", "a pool of database connections", "a Sudoku solver",
    "a compressor for sensor readings", "a router for support tickets", "a chess clock",
    "a calendar with recurring events", "an inventory of spare parts", "a water tank model",
)  # fmt: skip

_CODE = (
    "Write a Python module for {topic}. Give the class, its methods and a short test.",
    "Here is the start of a module for {topic}:\n```python\nclass Model:\n    def __init__(self):\n"
    "        self.items = []\n```\nFinish it with add, remove, find and a summary method.",
    "Write the command line tool for {topic} with argparse, and explain each function.",
    "Port {topic} from a shell script to Python and keep the option names.",
)
_REASONING = (
    "Think step by step: what can go wrong with {topic} under load, and how would you find out?",
    "Compare three designs of {topic}. Reason about cost, failure and change before you choose.",
    "A team reports that {topic} became slow overnight. Work out the likely causes in order.",
    "Derive how the memory of {topic} grows with its input, and check the result on an example.",
)
_CHAT = (
    "In a few sentences, what is {topic} good for?",
    "Name the parts of {topic} and say what each does.",
    "What should a beginner read first about {topic}?",
    "Give a short example that shows {topic} at work.",
)

PROMPT_SETS: dict[str, tuple[str, ...]] = {
    "reasoning": _REASONING,
    "code": _CODE,
    "chat": _CHAT,
}
"""Name of a built-in prompt set to its templates; each is crossed with all topics."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts and how they are sent. Cold and measured prompts never overlap.

    `measure_s` ends the measured pass even if prompts are left; both are in the host's seconds.
    `dialect` is the API that is spoken: `chat` or `generate`.
    """

    prompts: str = "reasoning"
    max_tokens: int = 512
    cold_prompts: int = 4
    measured_prompts: int = 24
    measure_s: float = 90.0
    concurrency: int = 1
    dialect: str = "chat"
    temperature: float = 0.0
    ignore_eos: bool = False
    seed: int = 0

    @property
    def key(self) -> str:
        """Return the hash of what is asked: equal keys are comparable."""
        return digest(self.as_data())

    def warm_up(self) -> list[Prompt]:
        """Return the prompts that only warm the server up."""
        return self._ordered()[:2]

    def cold(self) -> list[Prompt]:
        """Return the prompts of the cold pass, right after a flush."""
        return self._ordered()[2 : 2 + self.cold_prompts]

    def measured(self) -> list[Prompt]:
        """Return the prompts of the measured pass."""
        start = 2 + self.cold_prompts
        return self._ordered()[start : start + self.measured_prompts]

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON and hashes."""
        return {
            "prompts": self.prompts, "max_tokens": self.max_tokens,
            "cold_prompts": self.cold_prompts, "measured_prompts": self.measured_prompts,
            "measure_s": self.measure_s, "concurrency": self.concurrency,
            "dialect": self.dialect, "temperature": self.temperature,
            "ignore_eos": self.ignore_eos, "seed": self.seed,
        }  # fmt: skip

    def problems(self) -> list[Problem]:
        """List everything that is wrong with the workload."""
        if self.prompts not in PROMPT_SETS:
            mend = nearest(self.prompts, PROMPT_SETS) or f"There are {', '.join(PROMPT_SETS)}."
            return [Problem("workload.prompts", self.prompts, "no such prompt set", mend)]
        found = []
        wanted, there = 2 + self.cold_prompts + self.measured_prompts, len(self._ordered())
        if wanted > there:
            why = f"with cold and warm-up prompts {wanted} are needed and the set has {there}"
            mend = f"Ask for at most {there - 2 - self.cold_prompts}."
            found.append(
                Problem("workload.measured_prompts", str(self.measured_prompts), why, mend)
            )
        for name in ("max_tokens", "measured_prompts", "concurrency", "measure_s"):
            value = getattr(self, name)
            if value <= 0:
                found.append(
                    Problem(f"workload.{name}", str(value), "must be above 0", "Raise it.")
                )
        if self.dialect not in ("chat", "generate"):
            mend = "Use chat or generate."
            found.append(Problem("workload.dialect", self.dialect, "no such API", mend))
        return found

    def _ordered(self) -> list[Prompt]:
        made = [
            template.format(topic=topic)
            for template in PROMPT_SETS[self.prompts]
            for topic in _TOPICS
        ]
        random.Random(self.seed).shuffle(made)
        return prompts_of(made)
