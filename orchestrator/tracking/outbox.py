"""What is told to a tracker and not yet written: on disk, so that neither it nor memory is lost.

Beside the file lies its mark: how far it was sent, what was set aside, and the latest time.
"""

import contextlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition

from infra.whole_file import write_whole
from orchestrator.journal import DiskError, Journal, unseal
from orchestrator.tracking.events import Event, Progress, TrialEnded, event_data, event_from
from orchestrator.tracking.seam import Sample

log = logging.getLogger(__name__)

MAX_SAMPLES = 2_000
"""Samples of one trial that wait in memory at most; above it every second one is let go."""

MARK_SUFFIX = ".mark"

MERGED_LINES = 200
"""Lines with samples that are sent together at most."""

COMPACT_BYTES = 1_000_000
"""A file of which all is sent is emptied from this length on."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Events that are sent together, and where their lines lie."""

    events: tuple[Event, ...]
    start_bytes: int
    end_bytes: int
    lines: int


class Outbox:
    """A queue from many threads to one. Nothing in it waits for the reader but `take`.

    Events come out in order, again and again until they are `done` or `set_aside`, also in another
    process. Samples wait by trial, one for each elapsed second at most, for `linger_s`, and come
    out before the end of their trial. What the disk does not take is counted as lost.

    Raises DiskError or BadInputError for a file that cannot be used, as it is opened only.
    """

    def __init__(self, path: Path, linger_s: float = 2.0) -> None:
        self.path = path
        self.lost = 0
        self._linger_s = linger_s
        self._changed = Condition()
        self._samples: dict[str, dict[int, tuple[Sample, int]]] = {}
        self._due_s = 0.0
        self._closed = False
        self._journal = Journal(path, "outbox")
        self._mark = _Mark.read(path, self._journal.end_bytes)
        self._mark.write(path)
        self._lines = sum(1 for _ in self._lines_from(self._mark.sent_bytes))

    @property
    def stamp_ms(self) -> int:
        """Return the latest time that was noted in it, milliseconds since 1970."""
        return self._mark.stamp_ms

    @property
    def waiting(self) -> int:
        """Return how many lines and samples are still to be sent for the first time."""
        with self._changed:
            return self._lines + sum(map(len, self._samples.values()))

    @property
    def aside(self) -> int:
        """Return how many entries were refused and wait for another time."""
        with self._changed:
            return len(self._mark.aside)

    def put(self, event: Event, at_ms: int = 0) -> bool:
        """Queue an event; False if the outbox is closed, or the disk does not take it."""
        with self._changed:
            if self._closed:
                return False
            if isinstance(event, TrialEnded):
                self._flush(event.result.trial)
            self._note(at_ms)
            return self._append(event)

    def sync(self) -> bool:
        """Make sure that what was put survives a power cut; False if the disk does not say so."""
        with self._changed:
            try:
                self._journal.sync()
            except DiskError as error:
                log.warning("what is kept for the tracker may be lost: %s", error)
                return False
        return True

    def put_sample(self, trial: str, sample: Sample, at_ms: int) -> bool:
        """Keep a sample, in the place of one for the same second; False if closed."""
        with self._changed:
            if self._closed:
                return False
            if not self._samples:
                self._due_s = time.monotonic() + self._linger_s
            self._note(at_ms)
            waiting = self._samples.setdefault(trial, {})
            waiting[int(sample.elapsed_s)] = (sample, at_ms)
            if len(waiting) > MAX_SAMPLES:
                self._samples[trial] = dict(list(waiting.items())[1::2])
            if time.monotonic() >= self._due_s:
                self._flush()
            elif len(self._samples) == 1 and len(waiting) == 1:
                self._changed.notify()
            return True

    def close(self) -> None:
        """Take nothing more. What waits can still be taken."""
        with self._changed:
            self._flush()
            self._closed = True
            self._changed.notify_all()

    def take(self) -> Entry | None:
        """Block for what is next; None once the outbox is closed and empty."""
        with self._changed:
            while True:
                if self._samples and time.monotonic() >= self._due_s:
                    self._flush()
                if entry := self._entry_at(self._mark.sent_bytes):
                    return entry
                if self._closed:
                    return None
                self._changed.wait(self._due_s - time.monotonic() if self._samples else None)

    def done(self, entry: Entry) -> None:
        """Note that what was taken is sent; it does not come out again."""
        with self._changed:
            self._pass(entry)
            self._mark.write(self.path)
            if self._is_sent and self._journal.end_bytes > COMPACT_BYTES:
                self._compact()

    def set_aside(self, entry: Entry) -> None:
        """Let what comes after go first; `asides` has it."""
        with self._changed:
            self._mark.aside.append(entry.start_bytes)
            self._pass(entry)
            self._mark.write(self.path)

    def asides(self) -> list[Entry]:
        """Return what was set aside."""
        with self._changed:
            return [e for at in self._mark.aside if (e := self._entry_at(at))]

    def settle(self, entry: Entry) -> None:
        """Note that what was set aside is sent after all."""
        with self._changed:
            self._mark.aside.remove(entry.start_bytes)
            self._mark.write(self.path)

    def release(self) -> None:
        """Close the file, and remove it if all of it is sent. Only the mark stays then."""
        with self._changed:
            self._closed = True
            if self._journal.is_open:
                if self._is_sent:
                    self._mark.sent_bytes = 0
                    self._mark.write(self.path)
                    self.path.unlink(missing_ok=True)
                self._journal.close()

    @property
    def _is_sent(self) -> bool:
        return not (self._lines or self._mark.aside or self._samples)

    def _note(self, at_ms: int) -> None:
        self._mark.stamp_ms = max(self._mark.stamp_ms, at_ms)

    def _pass(self, entry: Entry) -> None:
        self._mark.sent_bytes = entry.end_bytes
        self._lines -= entry.lines

    def _compact(self) -> None:
        """Forget what is sent. The mark goes first: at worst, all of it is sent once more."""
        self._mark.sent_bytes = 0
        self._mark.write(self.path)
        with contextlib.suppress(DiskError):
            self._journal.clear()

    def _flush(self, trial: str | None = None) -> None:
        """Move the samples of one trial, or all, from memory to the file."""
        for name in list(self._samples) if trial is None else [trial]:
            if samples := self._samples.pop(name, None):
                self._append(Progress(name, samples))

    def _append(self, event: Event) -> bool:
        try:
            self._journal.append(event_data(event))
        except (DiskError, ValueError, TypeError) as error:
            self.lost += 1
            log.warning("%s is not kept for the tracker: %s", type(event).__name__, error)
            return False
        self._lines += 1
        self._changed.notify()
        return True

    def _entry_at(self, start: int) -> Entry | None:
        """Return the event whose line begins there, with all samples that follow samples."""
        events: list[Event] = []
        end, lines = start, 0
        for line_end, event in self._lines_from(start):
            is_progress = isinstance(event, Progress)
            if events and not (is_progress and isinstance(events[0], Progress)):
                break
            end, lines = line_end, lines + 1
            if event is not None:
                events.append(event)
            if lines >= MERGED_LINES or (events and not is_progress):
                break
        return Entry(_merged(events), start, end, lines) if lines else None

    def _lines_from(self, start: int) -> Iterator[tuple[int, Event | None]]:
        """Read on from the begin of a line: the end of each line, and the event that it holds."""
        with self._journal.reader() as file:
            file.seek(start)
            end = start
            for line in file:
                end += len(line)
                if start or end > len(line):
                    yield end, _event(line)


@dataclass(slots=True)
class _Mark:
    """How far an outbox was sent."""

    sent_bytes: int = 0
    aside: list[int] = field(default_factory=list)
    stamp_ms: int = 0

    @classmethod
    def read(cls, outbox: Path, length_bytes: int) -> "_Mark":
        """Read the mark of an outbox; one that does not fit says that nothing was sent."""
        try:
            data = json.loads(outbox.with_suffix(MARK_SUFFIX).read_text())
            mark = cls(int(data["sent_bytes"]), list(map(int, data["aside"])), data["stamp_ms"])
        except (OSError, ValueError, KeyError, TypeError):
            return cls()
        for at in (mark.sent_bytes, *mark.aside):
            if at > length_bytes or not _is_line_start(outbox, at):
                return cls(stamp_ms=mark.stamp_ms)
        return mark

    def write(self, outbox: Path) -> None:
        """Write it beside and rename; where that fails, what was sent is sent again one day."""
        data = {"sent_bytes": self.sent_bytes, "aside": self.aside, "stamp_ms": self.stamp_ms}
        with contextlib.suppress(OSError):
            write_whole(outbox.with_suffix(MARK_SUFFIX), json.dumps(data).encode())


def _is_line_start(path: Path, at: int) -> bool:
    if at <= 0:
        return at == 0
    with path.open("rb") as file:
        file.seek(at - 1)
        return file.read(1) == b"\n"


def _event(line: bytes) -> Event | None:
    data = unseal(line[:-1])
    return None if data is None else event_from(data)


def _merged(events: Sequence[Event]) -> tuple[Event, ...]:
    """Put the samples of each trial together."""
    if not events or not isinstance(events[0], Progress):
        return tuple(events)
    by_trial: dict[str, dict[int, tuple[Sample, int]]] = {}
    for event in events:
        assert isinstance(event, Progress), "samples are merged with samples only"
        by_trial.setdefault(event.trial, {}).update(event.samples)
    return tuple(Progress(trial, samples) for trial, samples in by_trial.items())
