"""The log lines of the emulated server, in SGLang 0.5.23's form."""

import logging
import logging.config
import os
import signal
from dataclasses import dataclass
from typing import NoReturn

SERVER = logging.getLogger("infra.emulated.server")
RANK = logging.getLogger("infra.emulated.rank")
"""What the first scheduler process writes."""

_DATE = "%Y-%m-%d %H:%M:%S"


def log_config(level: str, *, ranks: bool) -> dict[str, object]:
    """Return the logging configuration; with several ranks, scheduler lines name theirs."""
    plain = {"format": "[%(asctime)s] %(message)s", "datefmt": _DATE}
    rank = {"format": f"[%(asctime)s{' TP0' if ranks else ''}] %(message)s", "datefmt": _DATE}
    web = {"()": "uvicorn.logging.DefaultFormatter", "datefmt": _DATE, "use_colors": False}
    access = {**web, "()": "uvicorn.logging.AccessFormatter"}
    web["fmt"] = "[%(asctime)s] %(levelprefix)s %(message)s"
    access["fmt"] = (
        '[%(asctime)s] %(levelprefix)s %(client_addr)s - "%(request_line)s" %(status_code)s'
    )
    formats = {"plain": plain, "rank": rank, "web": web, "access": access}
    loggers = {
        SERVER.name: "plain",
        RANK.name: "rank",
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


def decode_line(
    window: DecodeWindow, *, running: int, held: int, room: int, queued: int, graph: bool
) -> str:
    """Write the line of a decode interval; accept figures only with speculation."""
    speculation = ""
    if window.verifies:
        rate = window.correct_drafts / max(1, window.proposed_drafts)
        length = window.verified_tokens / window.verifies
        speculation = f"accept len: {length:.2f}, accept rate: {rate:.2f}, "
    return (
        f"Decode batch, #running-req: {running}, #token: {held}, token usage: {held / room:.2f}, "
        f"{speculation}cuda graph: {graph}, "
        f"gen throughput (token/s): {window.tokens / max(1e-9, window.duration_s):.2f}, "
        f"#queue-req: {queued}"
    )


def prefill_line(
    *, new: int, new_tokens: int, cached: int, usage: float, running: int, queued: int, rate: float
) -> str:
    """Write the line of a prefill batch."""
    return (
        f"Prefill batch, #new-seq: {new}, #new-token: {new_tokens}, #cached-token: {cached}, "
        f"token usage: {usage:.2f}, #running-req: {running}, #queue-req: {queued}, "
        f"#pending-token: 0, cuda graph: False, input throughput (token/s): {rate:.2f}"
    )


def die(error: str) -> NoReturn:
    """End as SGLang does when a scheduler fails: its traceback, then SIGKILL for all of it."""
    RANK.error(
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "sglang/srt/managers/scheduler.py", in run_scheduler_process\n%s\n',
        error,
    )
    SERVER.error("Received sigquit from a child process. It usually means the child failed.")
    SERVER.error("kill_process_tree called: parent_pid=%d, include_parent=True", os.getpid())
    logging.shutdown()
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(1)
