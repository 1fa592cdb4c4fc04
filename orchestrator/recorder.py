"""Keeps what plain decode wrote, so that drafts can be replayed on it without a server."""

import hashlib
import logging
from dataclasses import replace
from pathlib import Path

from infra.sglang.ngram_form import ngram_form
from orchestrator.files import write_bytes
from orchestrator.job import TrialJob
from orchestrator.kept_accepts import KeptAccepts
from orchestrator.state import State
from sweeps.prediction.source import AcceptSource
from sweeps.problems import BadInputError
from sweeps.records import EndReason, PassRecord
from sweeps.replay.accepts import RecordedAccepts
from sweeps.replay.recording import SUFFIX, Circumstances, Recording, read_recording
from sweeps.replay.streams import Stream
from sweeps.results import Phase
from sweeps.sweep import Sweep

logger = logging.getLogger(__name__)

_HASH_CHARS = 16
CUT_TOKENS = 512
"""A text that was cut off is kept in whole pieces of so many tokens: where time cut it would make
equal texts differ from start to start, and each would be replayed anew."""


class Recorder:
    """The streams of one trial whose token ids the server told."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []

    def take(self, phase: Phase, record: PassRecord) -> None:
        """Take a pass, in the order in which its requests were sent."""
        for request in sorted(record.requests, key=lambda r: r.sent_s):
            ids = request.output_ids
            if request.end is not EndReason.FINISHED:
                ids = ids[: len(ids) // CUT_TOKENS * CUT_TOKENS]
            if ids:
                self._streams.append(Stream(request.prompt_ids, ids, part=phase.value))

    def write(self, job: TrialJob, version: str) -> None:
        """Leave a file in the trial's folder, if there is anything to keep. Raises DiskError."""
        if not self._streams:
            return
        here = replace(
            circumstances(job.sweep),
            engine_version=version,
            host=job.host.name,
            emulated=job.host.emulated,
        )
        write_bytes(job.recording_path, Recording(here, tuple(self._streams)).as_bytes())


def circumstances(sweep: Sweep) -> Circumstances:
    """Return what decides the text that a sweep's baseline writes, apart from the host."""
    work = sweep.workload
    return Circumstances(
        model=sweep.model.path,
        tokenizer=tokenizer_hash(sweep.model.path),
        temperature=work.temperature,
        workload=work.key,
        text=str(work.as_data()["prompts"]),
    )


def tokenizer_hash(model: str) -> str:
    """Return the hash of the tokenizer in a model's folder; empty where none is to be seen."""
    path = Path(model).expanduser() / "tokenizer.json"
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:_HASH_CHARS]
    except OSError:
        return ""


def keep(state: State, written: Path) -> Path | None:
    """File a trial's recording under its key, for other sweeps; None where there is none to read.

    Raises DiskError.
    """
    if not written.exists():
        return None
    try:
        recording = read_recording(written)
    except BadInputError as error:
        logger.warning("not kept for other sweeps: %s", error)
        return None
    kept = state.recordings_path / f"{recording.key}{SUFFIX}"
    if not kept.exists():
        write_bytes(kept, written.read_bytes())
    return kept


def recordings(state: State) -> list[tuple[Path, Recording]]:
    """Read all recordings of a state folder, newest first; what cannot be read is passed over."""
    paths = sorted(
        state.recordings_path.glob(f"*{SUFFIX}"), key=lambda p: p.stat().st_mtime, reverse=True
    )
    found = []
    for path in paths:
        try:
            found.append((path, read_recording(path)))
        except BadInputError:
            continue
    return found


def accept_source(
    state: State, sweep: Sweep, version: str, *, emulated: bool
) -> AcceptSource | None:
    """Return who knows the accept lengths of a sweep from recorded text; None without any."""
    recording = recording_of(state, sweep, emulated=emulated)
    if recording is None:
        return None
    form = ngram_form(version, sweep.fixed)
    inner = RecordedAccepts.of_trial(recording.streams, form, sweep.workload.concurrency)
    return KeptAccepts(inner, state.drafts_path)


def recording_of(state: State, sweep: Sweep, *, emulated: bool) -> Recording | None:
    """Return the newest recording that speaks for a sweep: same model, prompts and sampling."""
    wanted = circumstances(sweep)
    for _, recording in recordings(state):
        here = recording.circumstances
        if (
            here.emulated == emulated
            and replace(here, engine_version="", host="", emulated=False) == wanted
        ):
            return recording
    return None
