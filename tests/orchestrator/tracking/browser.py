"""A headless Chromium that a test can look through."""

import base64
import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.orchestrator.tracking.sessions import stop_session

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-proxy-server", "--window-size=1600,900", "--remote-debugging-pipe",
)  # fmt: skip


class Page:
    """One page, driven over the browser's debugging pipe."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._rest = b""
        self._count = 0
        self._session: dict[str, str] = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    def call(self, method: str, **params: object) -> Any:
        """Send a command and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params, **self._session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._read())
            if answer.get("id") == self._count:
                return answer["result"]

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """Run a script in the page; return its value."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return answer["result"].get("value")

    def wait_for(self, script: str, deadline_s: float = 60.0) -> Any:
        """Return what a script gives, once it is true."""
        until_s = time.monotonic() + deadline_s
        while not (found := self.evaluate(script)):
            if time.monotonic() > until_s:
                raise TimeoutError(f"{script}\n{self.evaluate('document.body.innerText')}")
            time.sleep(0.2)
        return found

    def screenshot(self, path: Path) -> None:
        """Write what is seen as PNG."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def _read(self) -> bytes:
        while b"\0" not in self._rest:
            if not select.select([self._from], [], [], 60)[0]:
                raise TimeoutError("the browser is silent")
            chunk = os.read(self._from, 1 << 16)
            if not chunk:
                raise ConnectionError("the browser is gone")
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return message


@contextlib.contextmanager
def open_browser(binary: str, profile: Path) -> Iterator[Page]:
    """Start Chromium with a fresh profile; it is gone at the end."""
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()

    def as_3_and_4() -> None:  # where the browser expects its pipe
        ends = [os.dup(command_read), os.dup(answer_write)]
        os.dup2(os.dup(ends[0]), 3)
        os.dup2(ends[1], 4)

    browser = subprocess.Popen(
        [binary, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=as_3_and_4,
        close_fds=False,
        start_new_session=True,
    )
    os.close(command_read)
    os.close(answer_write)
    try:
        yield Page(command_write, answer_read)
    finally:
        os.close(command_write)
        os.close(answer_read)
        stop_session(browser)
