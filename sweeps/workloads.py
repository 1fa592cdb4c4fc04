"""What is asked of a server: prompts, sampling, load and how long to measure."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from sweeps.problems import BadInputError, Problem, nearest
from sweeps.prompt_files import read_prompts
from sweeps.prompt_sets import PROMPT_SETS, built_in
from sweeps.prompts import Prompt, PromptSet
from sweeps.values import digest
from sweeps.workload_limits import field_problems

__all__ = ["FILE", "PROMPT_SETS", "WARM_UP_PROMPTS", "Workload"]

FILE = "file:"
"""What stands before the path of a prompt file."""

WARM_UP_PROMPTS = 2

ROUNDS = 3
"""Requests per stream of a pass with several, at the least: in the first round the streams start
and in the last they run out, so that only those between are surely at full concurrency."""

LEAST_REQUESTS = 2
"""The interval over prompts needs as many requests."""


DEFAULT_DIALECT = "chat"
"""What is spoken where nobody named a dialect and the SGLang of all hosts has what it needs."""


class OpenDialect(str):
    """A dialect that nobody named, as it was chosen: where the versions of hosts lack it, another
    one takes its place."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts and how they are sent. No two passes share a prompt, and none repeats one; but those
    before the measured pass are sent again before each load, after a flush.

    Every time is in the host's seconds. Passes end when their prompts do, or at their limit.
    """

    prompts: str = "reasoning"
    """A built-in set, or `file:` and a path; see `sweeps.prompt_files.read_prompts`."""
    max_tokens: int = 512
    cold_prompts: int = 4
    measured_prompts: int = 24
    """The least of the measured pass, which goes on with further ones as long as that pays (see
    `sweeps.pass_length`)."""
    most_measured_prompts: int | None = None
    """The most of it; None: all that the set has left."""
    measure_s: float = 90.0
    """The limit of the cold pass, of the measured one and of each loaded one."""
    concurrency: int = 1
    """Streams of the cold, warming and measured passes."""
    dialect: str = OpenDialect(DEFAULT_DIALECT)
    """The API that is spoken: `chat` or `generate`. Left out, it is `chat`, or what the SGLang of
    the hosts has, and is chosen before a sweep starts."""
    temperature: float = 0.0
    ignore_eos: bool = False
    seed: int = 0
    """Decides the order of the prompts, and so which pass gets which."""
    concurrencies: Sequence[int] = ()
    """Streams of each loaded pass that follows the measured one."""
    loaded_prompts: int = 16
    """Requests of each loaded pass; three per stream where that is more."""
    requests_per_s: float | None = None
    """The rate of an open loop after the loaded passes; None: there is none."""
    open_loop_prompts: int = 64
    """Requests of the open loop; 64 bound a p90 at 99 % confidence (MLPerf LoadGen's rule)."""
    probe_s: float = 20.0
    """The length of each step probe; 0: there is none."""
    probe_prompts: int = 1
    """Requests per stream of a step probe."""
    probe_tokens: int = 2048
    """Output tokens of each, whatever ends a sentence before."""
    warming_prompts: int = 4
    """Requests of each pass of generated warm-up, between the cold and the measured pass."""
    warming_passes: int = 4
    """Passes of generated warm-up at the most."""
    top_p: float = 1.0
    top_k: int = -1
    """-1: all tokens."""
    sampling_seed: int = 0
    contents: str = ""
    """The hash that the prompts must have, set once a sweep is prepared; empty: any."""

    @property
    def key(self) -> str:
        """Return the hash of what is asked: equal keys are comparable, whatever a file's name.

        Raises BadInputError where the prompts cannot be read.
        """
        return digest({name: v for name, v in self.as_data().items() if name != "prompts"})

    @property
    def file(self) -> Path | None:
        """Return where users' own prompts lie; None for a built-in set."""
        return Path(self.prompts.removeprefix(FILE)) if self.prompts.startswith(FILE) else None

    @property
    def unsent(self) -> tuple[str, ...]:
        """Return what a file's entries hold beside their prompts, by its keys; it is not sent.

        Raises BadInputError where the prompts cannot be read.
        """
        return self._source().unsent

    def warm_up(self) -> list[Prompt]:
        """Return the prompts that only warm the server up."""
        return self._dealt("warm-up")

    def probe(self, concurrency: int = 1) -> list[Prompt]:
        """Return the prompts of the step probe with so many streams, one of `streams`."""
        return self._dealt(f"probe at {concurrency}")

    def cold(self) -> list[Prompt]:
        """Return the prompts of the cold pass, right after a flush."""
        return self._dealt("cold")

    def warming(self, number: int) -> list[Prompt]:
        """Return the prompts of one pass of generated warm-up; `number` counts from 0."""
        return self._dealt(f"warming {number}")

    def measured(self) -> list[Prompt]:
        """Return the prompts of the measured pass."""
        return self._dealt("measured")

    def further(self) -> list[Prompt]:
        """Return the prompts that the measured pass may go on with: no other pass has them."""
        most = self.most_measured_prompts
        end = None if most is None else self.needed_prompts + most - self.measured_prompts
        return self._ordered()[self.needed_prompts : end]

    def loaded(self, concurrency: int) -> list[Prompt]:
        """Return the prompts of a loaded pass, one of `concurrencies`."""
        return self._dealt(f"loaded at {concurrency}")

    def open_loop(self) -> list[Prompt]:
        """Return the prompts that are sent at `requests_per_s`; none without a rate."""
        return self._dealt("open loop")

    @property
    def streams(self) -> tuple[int, ...]:
        """Return the concurrencies that are probed: one stream, then those of the passes."""
        return tuple(dict.fromkeys((1, self.concurrency, *self.concurrencies)))

    @property
    def needed_prompts(self) -> int:
        """Return how many distinct prompts all passes take together."""
        return sum(count for _, count in self._passes())

    @property
    def leaves_dialect_open(self) -> bool:
        """Tell whether nobody named a dialect."""
        return isinstance(self.dialect, OpenDialect)

    def speaking(self, dialect: str) -> "Workload":
        """Return it with the dialect that was chosen for it, since nobody named one."""
        return replace(self, dialect=OpenDialect(dialect))

    def settled(self, base: Path) -> "Workload":
        """Return it with the path of its file absolute, from `base`, and its contents fixed.

        Raises BadInputError where the prompts cannot be read.
        """
        if self.file is None:
            return self
        path = (base / self.file.expanduser()).absolute()
        settled = replace(self, prompts=f"{FILE}{path}")
        return replace(settled, contents=settled._source().contents)

    def as_data(self) -> dict[str, object]:
        """Return plain data, for JSON and hashes; a file by its name and its contents.

        Raises BadInputError where the prompts cannot be read.
        """
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.most_measured_prompts == self.measured_prompts:
            del data["most_measured_prompts"]  # as before there were further ones
        data["concurrencies"] = list(self.concurrencies)
        data["dialect"] = str(self.dialect)
        data["contents"] = self._source().contents
        if self.file is not None:
            data["prompts"] = f"{FILE}{self.file.name}"
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> "Workload":
        """Read back what `as_data` wrote; what a newer version added is left out."""
        known = {each.name for each in fields(cls)}
        read = {n: v for n, v in data.items() if n in known}
        if "measured_prompts" in read:
            read.setdefault("most_measured_prompts", read["measured_prompts"])
        return cls(**read)  # type: ignore[arg-type] # from as_data

    def __str__(self) -> str:
        rest = f", then {' and '.join(map(str, self.concurrencies))}" if self.concurrencies else ""
        return (
            f"{self._measured_range} {self.prompts} prompts of up to {self.max_tokens} tokens,"
            f" {self.concurrency} at a time{rest}, for at most {self.measure_s:g} s"
        )

    @property
    def _measured_range(self) -> str:
        least, most = self.measured_prompts, self.most_measured_prompts
        if most is None:
            return f"at least {least}"
        return str(least) if most == least else f"{least} to {most}"

    def problems(self) -> list[Problem]:
        """List everything that is wrong with the workload."""
        found = field_problems({each.name: getattr(self, each.name) for each in fields(self)})
        if any(problem.field == "workload.prompts" for problem in found):
            return found
        try:
            source = self._source()
        except BadInputError as error:
            return [*found, *error.problems]
        if not found:
            found += self._length_problems()
            found += self._shortage(source)
        return found

    def _length_problems(self) -> Iterator[Problem]:
        least = ROUNDS * self.concurrency if self.concurrency > 1 else LEAST_REQUESTS
        if self.measured_prompts < least:
            why = f"an interval at {self.concurrency} at a time needs {least} requests"
            mend = f"Ask for at least {least}."
            asked = str(self.measured_prompts)
            yield Problem("workload.measured_prompts", asked, why, mend)
        most = self.most_measured_prompts
        if most is not None and most < self.measured_prompts:
            why = f"the least, `measured_prompts`, is {self.measured_prompts}"
            mend = "Give as many or more, or None for all that the set has left."
            yield Problem("workload.most_measured_prompts", str(most), why, mend)
        if self.requests_per_s is not None:
            needed_s = self.open_loop_prompts / self.requests_per_s
            if needed_s > self.measure_s:
                why = f"{self.open_loop_prompts} requests at {self.requests_per_s:g}/s need more"
                mend = f"Give {needed_s:.0f} s, or lower `open_loop_prompts`."
                yield Problem("workload.measure_s", f"{self.measure_s:g}", why, mend)

    def _shortage(self, source: PromptSet) -> list[Problem]:
        there, needed = len(source.prompts), self.needed_prompts
        if needed <= there:
            return []
        others = needed - self.measured_prompts
        parts = ", ".join(f"{name} {count}" for name, count in self._passes() if count)
        place = "set" if self.file is None else "file"
        why = f"{needed} distinct prompts are needed ({parts}) and the {place} has {there}"
        if source.passed_over:
            why += f", beside {source.passed_over} that repeat others or ask nothing"
        if others + LEAST_REQUESTS <= there:
            mend = f"Ask for at most {there - others}, or for less elsewhere."
            return [Problem("workload.measured_prompts", str(self.measured_prompts), why, mend)]
        mend = f"Give a file with at least {needed}, or ask for less."
        return [Problem("workload.prompts", self.prompts, why, mend)]

    def _passes(self) -> Iterator[tuple[str, int]]:
        """Yield each pass and its number of prompts, in the order in which they are dealt.

        What is asked for in addition comes last, and leaves the others their prompts. The order of
        the loads has no part in it: a load has the same prompts wherever it stands.
        """
        yield "warm-up", WARM_UP_PROMPTS
        yield "cold", self.cold_prompts
        yield "measured", self.measured_prompts
        for number in range(self.warming_passes):
            yield f"warming {number}", self.warming_prompts
        for streams in sorted(self.streams):
            yield f"probe at {streams}", streams * self.probe_prompts if self.probe_s else 0
        for streams in sorted(self.concurrencies):
            yield f"loaded at {streams}", max(self.loaded_prompts, ROUNDS * streams)
        yield "open loop", 0 if self.requests_per_s is None else self.open_loop_prompts

    def _dealt(self, wanted: str) -> list[Prompt]:
        start = 0
        for name, count in self._passes():
            if name == wanted:
                return self._ordered()[start : start + count]
            start += count
        raise ValueError(f"the workload has no pass {wanted!r}")

    def _ordered(self) -> list[Prompt]:
        prompts = list(self._source().prompts)
        random.Random(self.seed).shuffle(prompts)
        return prompts

    def _source(self) -> PromptSet:
        """Return all prompts. Raises BadInputError."""
        path = self.file
        if path is not None:
            source = read_prompts(path.expanduser())
        elif self.prompts in PROMPT_SETS:
            source = built_in(self.prompts)
        else:
            near = nearest(self.prompts, PROMPT_SETS)
            mend = near or f"There are {', '.join(PROMPT_SETS)}, and `{FILE}PATH` for your own."
            raise _refused("prompts", self.prompts, "no such prompt set", mend)
        if self.contents not in ("", source.contents):
            why = f"the prompts have changed since, and are now {source.contents}"
            raise _refused("contents", self.contents, why, "Start a new sweep.")
        return source


def _refused(field: str, value: str, why: str, mend: str) -> BadInputError:
    return BadInputError("the workload", [Problem(f"workload.{field}", value, why, mend)])
