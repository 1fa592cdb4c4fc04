"""The emulated server's application in this process, on a simulated clock: no port, no wire."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.clock import SimulatedClock
from infra.emulated.engine import EmulatedEngine
from infra.emulated.resolution import effective_environment, resolve
from infra.emulated.scenario_file import ScenarioSource
from infra.emulated.serving.scheduler import Scheduler
from infra.emulated.serving.server import EmulatedServer
from infra.emulated.serving.state import ServerFacts
from infra.emulated.settings import make_settings
from infra.emulated.truth import TRUTHS
from infra.emulated.versions import manners
from sweeps.values import Value

BASE: dict[str, Value] = {"model_path": "m", "tp_size": 8}
NGRAM: dict[str, Value] = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 8}


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer. `whole` is False if the connection was cut."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool

    def json(self) -> Any:
        """Parse the body."""
        return json.loads(self.body)

    def events(self) -> list[dict[str, Any]]:
        """Parse the events before the end mark."""
        parts = self.body.decode().split("\n\n")
        data = [part.removeprefix("data: ") for part in parts if part]
        return [json.loads(part) for part in data if part != "[DONE]"]


class Inside:
    """A server that runs while it is asked."""

    def __init__(self, server: EmulatedServer, runner: asyncio.Runner) -> None:
        self.server = server
        self._runner = runner
        self._app = server.app()

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Do one request."""
        return self._runner.run(self._ask(method, path, body, headers or {}))

    def ask_all(self, *bodies: object, path: str = "/generate") -> list[Answer]:
        """Do several requests at the same time."""

        async def work() -> list[Answer]:
            return list(await asyncio.gather(*(self._ask("POST", path, b, {}) for b in bodies)))

        return self._runner.run(work())

    def ask_both(self, *requests: tuple[str, object]) -> list[Answer]:
        """Post several bodies to paths of their own at the same time."""

        async def work() -> list[Answer]:
            asked = (self._ask("POST", path, body, {}) for path, body in requests)
            return list(await asyncio.gather(*asked))

        return self._runner.run(work())

    async def _ask(
        self, method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> Answer:
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        bare, _, query = path.partition("?")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": bare,
            "raw_path": bare.encode(), "query_string": query.encode(), "root_path": "",
            "scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 81),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        incoming = [{"type": "http.request", "body": raw, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if incoming:
                return incoming.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async with asyncio.timeout(30):
            await self._app(scope, receive, send)  # type: ignore[arg-type]  # plain dicts
        head, *rest = sent
        return Answer(
            head["status"],
            {name.decode(): value.decode() for name, value in head["headers"]},
            b"".join(part.get("body", b"") for part in rest),
            whole=not sent[-1].get("more_body", False),
        )


@contextmanager
def inside(
    given: Mapping[str, Value] | None = None,
    version: str = "0.5.23",
    *,
    world: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Inside]:
    """Run a server that is past its warm-up."""
    flags, env = {**BASE, **(given or {})}, env or {}
    clock = SimulatedClock()
    scheduler = Scheduler(
        EmulatedEngine(make_settings(flags, env, version), TRUTHS["M"]),
        clock,
        scenario=ScenarioSource(world),
        how=manners(version),
    )
    args = resolve(flags, version, env)
    variables = effective_environment(env, args, version)
    server = EmulatedServer(
        scheduler, clock, ServerFacts(args, "x", version, variables, {}, {}, ())
    )
    server.state.ready_since_s = 0.0
    with asyncio.Runner() as runner:
        stepping = runner.get_loop().create_task(scheduler.run())
        yield Inside(server, runner)
        stepping.cancel()
