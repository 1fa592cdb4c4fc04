"""What `replay` computes: the accept length of many n-gram settings over recorded text."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from infra.sglang.ngram_form import ngram_form
from sweeps.drafting.ngram import NgramShape
from sweeps.problems import BadInputError, Problem
from sweeps.replay.accepts import (
    CurvePoint,
    RecordedAccepts,
    as_a_trial_serves,
    cold_accept,
    curve,
)
from sweeps.replay.completions import Tokenize, read_completions
from sweeps.replay.recording import Circumstances, is_recording, read_recording
from sweeps.replay.replayer import Replayer
from sweeps.replay.streams import Steps
from sweeps.results import Estimate
from sweeps.values import Value

MOST_SETTINGS = 5000
MATCHES = ("BFS", "PROB")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which settings are replayed, and how."""

    draft_tokens: Sequence[int]
    breadths: Sequence[int]
    depths: Sequence[int | None]
    """By the version's name for it; None: its default."""
    matches: Sequence[str]
    version: str
    concurrency: int = 1
    corpus_budget: int = 0

    def shapes(self) -> list[NgramShape]:
        """Return the distinct ways of drafting that the settings come to. Raises BadInputError."""
        self._check()
        form = ngram_form(self.version, {})
        axes = (self.draft_tokens, self.breadths, self.depths, self.matches)
        found = [form.shape(self._settings(*point)) for point in product(*axes)]
        shapes = list(dict.fromkeys(shape for shape in found if shape is not None))
        if not shapes or len(shapes) > MOST_SETTINGS:
            why = f"SGLang {self.version} takes none of them" if not shapes else "they are too many"
            mend = f"Ask for 1 to {MOST_SETTINGS} settings that it takes."
            raise BadInputError("replay", [Problem("settings", str(len(found)), why, mend)])
        return shapes

    def _check(self) -> None:
        wrong = [m for m in self.matches if m not in MATCHES]
        problems = [
            Problem("--match", m, "there is no such match type", "BFS or PROB.") for m in wrong
        ]
        if not re.fullmatch(r"\d+\.\d+\.\d+(\.post\d+)?", self.version):
            mend = "Write it as SGLang does, such as 0.5.9."
            problems.append(Problem("--version", self.version, "it is no version", mend))
        if problems:
            raise BadInputError("replay", problems)

    def _settings(
        self, tokens: int, breadth: int, depth: int | None, match: str
    ) -> dict[str, Value]:
        named: dict[str, Value] = {} if depth is None else {"ngram_match_depth": depth}
        return named | {
            "speculative_num_draft_tokens": tokens,
            "speculative_ngram_max_bfs_breadth": breadth,
            "speculative_ngram_match_type": match,
            "speculative_ngram_external_sam_budget": min(self.corpus_budget, tokens - 1),
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One setting: what it accepts right after a flush, and once it has seen text."""

    shape: NgramShape
    cold: Estimate | None
    warm: Estimate | None
    curve: Sequence[CurvePoint]

    @property
    def break_even(self) -> float | None:
        """Return how many plain decode steps a verify step may take at most."""
        return None if self.warm is None else self.warm.value


@dataclass(frozen=True, slots=True)
class Report:
    """All settings over one text."""

    source: Path
    circumstances: Circumstances | None
    requests: int
    output_tokens: int
    rows: Sequence[Row]

    @property
    def best(self) -> Row:
        """Return the setting with the highest accept length, whatever its steps cost."""
        return max(self.rows, key=lambda row: row.break_even or 0.0)


def replay_file(
    source: Path, asked: Asked, tokenize: Tokenize | None = None, corpus: Path | None = None
) -> Report:
    """Replay a recording or a log of completions. Raises BadInputError."""
    shapes = asked.shapes()
    circumstances: Circumstances | None = None
    if is_recording(source):
        recording = read_recording(source)
        circumstances = recording.circumstances
        served = as_a_trial_serves(recording.streams)
    else:
        served = [(read_completions(source, tokenize), None)]
    corpora = [[s.output for s in read_completions(corpus, tokenize)]] if corpus else []
    parts = [
        (Replayer(streams, concurrency=asked.concurrency, corpora=corpora), counted)
        for streams, counted in served
    ]
    for replayer, _ in parts:
        replayer.all_steps(shapes)
    accepts = RecordedAccepts(ngram_form(asked.version, {}), parts)
    whole = parts[0][0]
    rows = [_row(shape, whole.steps(shape), accepts.accept_of_shape(shape)) for shape in shapes]
    tokens = sum(len(stream.output) for stream in whole.streams)
    return Report(source, circumstances, len(whole.streams), tokens, rows)


def _row(shape: NgramShape, steps: Steps, warm: Estimate | None) -> Row:
    return Row(shape, cold_accept(steps), warm, curve(steps))


def tokenizer_of(path: Path) -> Tokenize:
    """Read a tokenizer.json. Raises BadInputError."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        why = "the package tokenizers is not installed"
        mend = "Install it, or log token ids instead of text."
        raise BadInputError("replay", [Problem("--tokenizer", str(path), why, mend)]) from error
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        mend = "Name the tokenizer.json of the model."
        raise BadInputError(
            "replay", [Problem("--tokenizer", str(path), str(error), mend)]
        ) from error
    return lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Read `2-6,8,16` as whole numbers. Raises BadInputError."""
    try:
        return tuple(dict.fromkeys(_numbers(text.split(","))))
    except ValueError as error:
        mend = "Write numbers and ranges, such as 2-6,8,16."
        why = f"it is no list of whole numbers, {MOST_SETTINGS} at most"
        problem = Problem(option, text, why, mend)
        raise BadInputError("replay", [problem]) from error


def _numbers(parts: Iterable[str]) -> Iterable[int]:
    for part in parts:
        low, dash, high = part.strip().partition("-")
        numbers = range(int(low), int(high if dash else low) + 1)
        if len(numbers) > MOST_SETTINGS:
            raise ValueError(f"{len(numbers)} numbers")
        yield from numbers


def report_data(report: Report) -> dict[str, object]:
    """Return plain data, for JSON."""
    here = report.circumstances
    return {
        "source": str(report.source),
        "emulated": bool(here and here.emulated),
        "model": here.model if here else None,
        "requests": report.requests,
        "output_tokens": report.output_tokens,
        "settings": [_row_data(row) for row in report.rows],
    }


def _row_data(row: Row) -> dict[str, object]:
    shape, window = row.shape, row.shape.window
    return {
        "draft_tokens": shape.draft_tokens,
        "max_breadth": shape.max_breadth,
        "depth": window.longest if window else shape.depth,
        "match": "PROB" if shape.by_likelihood else "BFS",
        "corpus_budget": shape.sam_budget,
        "accept_length_cold": row.cold.as_data() if row.cold else None,
        "accept_length": row.warm.as_data() if row.warm else None,
        "break_even_cycle_in_plain_steps": row.break_even,
        "curve": [
            {"from_tokens": p.from_tokens, "to_tokens": p.to_tokens, **p.accept.as_data()}
            for p in row.curve
        ],
    }
