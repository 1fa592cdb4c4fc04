"""What a trial writes down while it runs: its spool, which outlives a kill."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from orchestrator.files import Spool
from orchestrator.job import TrialJob, TrialProgress
from orchestrator.journal import DiskError
from orchestrator.spool import (
    RESULT,
    SAMPLE,
    TRIAL,
    SpooledSample,
    SpooledTrial,
    result_record,
    sample_record,
    trial_record,
)
from orchestrator.trial_records import request_data
from sweeps.records import PassRecord
from sweeps.results import Phase, TrialResult


class TrialNotes:
    """The spool of one trial. A full disk is a fault to be looked at, never an exception:
    whoever writes may be about to stop a server."""

    def __init__(self, spool: Spool) -> None:
        self.fault = ""
        """Why something could not be written; empty where all was."""
        self._spool = spool

    def note(self, kind: str, data: dict[str, object]) -> None:
        """Append one record."""
        try:
            self._spool.append(kind, data)
        except DiskError as error:
            self.fault = self.fault or str(error)

    def requests(self, phase: Phase, record: PassRecord) -> None:
        """Append the requests of a pass, and see that they survive a power cut."""
        for request in record.requests:
            self.note("request", {"phase": phase.value, **request_data(request)})
        with suppress(DiskError):  # it shows at the next note
            self._spool.sync()

    def sample(self, seen: TrialProgress) -> None:
        """Append the rate so far."""
        now_ms = time.time_ns() // 10**6
        told = SpooledSample(
            seen.elapsed_s, now_ms, seen.tok_s, seen.low, seen.high, seen.accept_length,
            seen.phase.value, seen.steps_per_s, seen.tokens,
        )  # fmt: skip
        self.note(SAMPLE, sample_record(told))

    def end(self, result: TrialResult) -> None:
        """Append the result, which the spool alone must be able to give. Raises DiskError."""
        self._spool.append(RESULT, result_record(result))
        self._spool.sync()


@contextmanager
def notes_of_trial(job: TrialJob) -> Iterator[TrialNotes]:
    """Open the spool of a trial. Raises DiskError."""
    spool = Spool(job.spool_path)
    try:
        head = SpooledTrial(
            job.trial, job.number, job.config, job.purpose.value, job.host.name,
            emulated=job.host.emulated, why=job.why, retry_of=job.retry_of,
        )  # fmt: skip
        spool.append(TRIAL, trial_record(head))
        yield TrialNotes(spool)
    finally:
        spool.close()
