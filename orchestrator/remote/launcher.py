"""Runs one command on a host for somebody elsewhere: it outlives them, and its end is on record.

    python -m orchestrator.remote.launcher RUN_FOLDER

The command gets a session of its own. SIGTERM to this process asks it to end as Ctrl-C does.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from infra.process_id import ProcessId, boot_id, started_ticks
from orchestrator.remote.notes import DRIVER, END, LAUNCHER, ORDER, OUTPUT, read_object
from orchestrator.remote.notes import write_object as write


def launch(folder: Path) -> int:
    """Run what a folder orders, once: whoever is sent a second time finds it begun, and goes."""
    try:
        os.close(os.open(folder / "begun", os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return 0
    write(folder / LAUNCHER, {"process": ProcessId.own().as_data(), "began_s": time.time()})
    order = read_object(folder / ORDER)
    # What is started without a terminal may have been born deaf to it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    asked = _Asked()
    try:
        with (folder / OUTPUT).open("ab") as output:
            driver = subprocess.Popen(
                [sys.executable, "-m", "orchestrator", *order["argv"]],
                cwd=order["cwd"], env={**os.environ, **order["env"], "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
    except (OSError, KeyError) as error:
        (folder / OUTPUT).write_text(f"The command could not be started: {error}\n")
        write(folder / END, {"code": 1, "ended_s": time.time()})
        return 1
    asked.pass_on_to(driver)
    write(folder / DRIVER, {"process": process_of(driver.pid).as_data()})
    code = driver.wait()
    write(folder / END, {"code": code, "ended_s": time.time()})
    return 0


class _Asked:
    """Whether SIGTERM has come; each one reaches the command as an interrupt."""

    def __init__(self) -> None:
        self._driver: subprocess.Popen[bytes] | None = None
        self._early = False
        signal.signal(signal.SIGTERM, self._take)

    def pass_on_to(self, driver: subprocess.Popen[bytes]) -> None:
        """Name the command, once there is one."""
        self._driver = driver
        if self._early:
            driver.send_signal(signal.SIGINT)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self._early = self._driver is None
        if self._driver is not None:
            self._driver.send_signal(signal.SIGINT)


def process_of(pid: int) -> ProcessId:
    """Return who a child is."""
    own = ProcessId.own()
    return ProcessId(pid, started_ticks(pid) or 0, boot_id(), own.machine, own.namespace)


if __name__ == "__main__":
    sys.exit(launch(Path(sys.argv[1])))
