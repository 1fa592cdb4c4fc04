"""The log lines of the emulated server, in the form of its version."""

import logging
import logging.config
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from infra.emulated.settings import Settings
from infra.emulated.versions import Manners, RateFormula

SERVER = logging.getLogger("infra.emulated.serving.server")
RANK = logging.getLogger("infra.emulated.rank")
"""What the first scheduler process writes."""
OTHER_RANKS = logging.getLogger("infra.emulated.other_ranks")
"""What the others write; each line names its rank by `extra`."""

_DATE = "%Y-%m-%d %H:%M:%S"


def log_config(level: str, *, ranks: bool) -> dict[str, object]:
    """Return the logging configuration; with several ranks, scheduler lines name theirs."""
    plain = {"format": "[%(asctime)s] %(message)s", "datefmt": _DATE}
    rank = {"format": f"[%(asctime)s{' TP0' if ranks else ''}] %(message)s", "datefmt": _DATE}
    other = {"format": "[%(asctime)s TP%(rank)d] %(message)s", "datefmt": _DATE}
    web = {"()": "uvicorn.logging.DefaultFormatter", "datefmt": _DATE, "use_colors": False}
    access = {**web, "()": "uvicorn.logging.AccessFormatter"}
    web["fmt"] = "[%(asctime)s] %(levelprefix)s %(message)s"
    access["fmt"] = (
        '[%(asctime)s] %(levelprefix)s %(client_addr)s - "%(request_line)s" %(status_code)s'
    )
    formats = {"plain": plain, "rank": rank, "other": other, "web": web, "access": access}
    loggers = {
        SERVER.name: "plain",
        RANK.name: "rank",
        OTHER_RANKS.name: "other",
        "uvicorn": "web",
        "uvicorn.access": "access",
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": formats,
        "handlers": {
            name: {"class": "logging.StreamHandler", "formatter": name} for name in formats
        },
        "loggers": {
            name: {"handlers": [form], "level": level.upper(), "propagate": False}
            for name, form in loggers.items()
        },
    }


def configure(level: str, *, ranks: bool) -> None:
    """Send all lines to standard error."""
    logging.config.dictConfig(log_config(level, ranks=ranks))


def tell_of_each(line: str, ranks: Iterable[int]) -> None:
    """Write what each of some ranks says of its own start, in the order in which they are given."""
    for rank in ranks:
        if rank == 0:
            RANK.info(line)
        else:
            OTHER_RANKS.info(line, extra={"rank": rank})


@dataclass(frozen=True, slots=True)
class DecodeWindow:
    """What happened between two decode lines."""

    steps: int
    tokens: int
    correct_drafts: int
    proposed_drafts: int
    verifies: int
    verified_tokens: int
    duration_s: float


@dataclass(frozen=True, slots=True)
class Pressure:
    """How full a server is at the moment of a line."""

    running: int
    queued: int
    held_tokens: int
    usage: float
    """Held tokens over the KV room."""
    passes: int
    """Forwards since the start."""


def decode_line(
    how: Manners, window: DecodeWindow, now: Pressure, settings: Settings, *, graph: bool
) -> str:
    """Write the line of a decode interval; accept figures only with speculation."""
    speculation = ""
    if window.verifies:
        length = window.verified_tokens / window.verifies
        speculation = f"accept len: {length:.2f}, "
        if how.rate_formula is not RateFormula.NONE:
            speculation += f"accept rate: {accept_rate(how, window, settings):.2f}, "
    return (
        f"{how.decode_head.format(pass_number=now.passes)}"
        f"#running-req: {now.running}, #token: {now.held_tokens}, "
        f"token usage: {now.usage:.2f}, {speculation}cuda graph: {graph}, "
        f"gen throughput (token/s): {window.tokens / max(1e-9, window.duration_s):.2f}, "
        f"#queue-req: {now.queued}{how.decode_tail}"
    )


def accept_rate(how: Manners, window: DecodeWindow, settings: Settings) -> float:
    """Return what a version calls accept rate; 0 without a verify."""
    match how.rate_formula:
        case RateFormula.NONE:
            return 0.0
        case RateFormula.PER_DRAFT_STEP:
            slots = window.verifies * (settings.draft_steps + 1)
            return window.verified_tokens / max(1, slots)
        case RateFormula.PER_NODE:
            return window.verified_tokens / max(1, window.verifies * settings.draft_tokens)
        case RateFormula.CORRECT_DRAFTS:
            return window.correct_drafts / max(1, window.proposed_drafts)


def prefill_line(
    how: Manners, now: Pressure, *, new: int, new_tokens: int, cached: int, rate: float
) -> str:
    """Write the line of a prefill batch."""
    line = (
        f"{how.prefill_head.format(pass_number=now.passes)}#new-seq: {new}, "
        f"#new-token: {new_tokens}, #cached-token: {cached}, token usage: {now.usage:.2f}, "
        f"#running-req: {now.running}, #queue-req: {now.queued}, "
    )
    speed = f"input throughput (token/s): {rate:.2f}"
    if how.prefill_pending:
        return f"{line}#pending-token: 0, cuda graph: False, {speed}"
    return f"{line}{speed}, cuda graph: False" if how.prefill_rate else line


def retract_line(how: Manners, gone: int, gained: int, before: float, after: float) -> str:
    """Write the line that tells of requests that lost their place."""
    told = f"KV cache pool is full. Retract requests. #retracted_reqs: {gone}, "
    if how.since("0.5.5"):
        told += f"#new_tokens_gained: {gained}, "
    else:
        told += "#aborted_retracted_reqs: 0, "
    return f"{told}#new_token_ratio: {before:.4f} -> {after:.4f}"


def last_words(error: str) -> list[str]:
    """Return what SGLang writes when a scheduler fails: its traceback, and what it does then."""
    return [
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        f'  File "sglang/srt/managers/scheduler.py", in run_scheduler_process\n{error}\n',
        "Received sigquit from a child process. It usually means the child failed.",
        f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=True",
    ]


def die(error: str) -> NoReturn:
    """End as SGLang does when a scheduler fails: its last words, then SIGKILL for all of it."""
    traceback, *rest = last_words(error)
    RANK.error("%s", traceback)
    for line in rest:
        SERVER.error("%s", line)
    logging.shutdown()
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(1)
