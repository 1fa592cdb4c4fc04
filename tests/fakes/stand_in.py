"""A stand-in for SGLang that starts as a program and misbehaves as its behaviour, data, says.

It takes SGLang's command line and serves what a trial asks of a server; `stand_in_tools` gives a
trial the tools that start it. No behaviour has a name of its own: they are fields that combine.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from infra.engines import ENGINES
from infra.sglang.flags import FLAGS
from orchestrator.tools import local_tools
from orchestrator.trial_seam import Tools
from sweeps.hosts import EngineName, HostSpec
from tests.fakes.stream_server import Fault, Script, StreamServer

_VARIABLE = "STAND_IN"
_VERSION = "0.5.23"
_ANY = ""
"""The algorithm of a behaviour that all others have."""
_PROBE_TOKENS = 4
READY = "The server is fired up and ready to roll!"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What it does, in wall seconds. Requests for tokens are counted from 1, the readiness probe
    and the warm-up too."""

    chunk_tokens: int = 3
    gap_s: float = 0.005
    speculates: bool = True
    fault: Fault = Fault.NONE
    faulty: tuple[int, int] = (1, 10**9)
    """The first and the last request that the fault befalls."""
    refused: tuple[int, ...] = ()
    """Requests that are refused because the queue is full."""
    dies_in: int = 0
    """The request in which it breaks off all connections and closes its port; 0: none."""
    last_lines: tuple[str, ...] = ()
    """What it writes then."""
    lingers_s: float = 0.0
    """From then until its process ends."""
    exit_code: int = 0
    mute_from: int = 0
    """The request from which on its health is not answered; 0: it is."""
    sick_from: int = 0
    """The request from which on its health is bad; 0: it is good."""
    cached_tokens: int | None = None
    """What it says that it found of each prompt in its prefix cache; None: nothing."""
    keeps_count: bool = False
    """A flush leaves the server's accept length as it was."""
    counts_factor: float | None = None
    """It exports metrics, whose tokens are so many times those that it streamed; None: none."""
    tells_settings: bool = True
    """It answers `/server_info`."""
    info: Mapping[str, object] = field(default_factory=dict)
    """What else it says of its settings."""


def stand_in_tools(behaviour: Behaviour, host: HostSpec) -> Tools:
    """Return the tools of a trial that starts a stand-in instead of an engine."""
    tools = local_tools(host)
    env = {"PYTHONUNBUFFERED": "1", **_variables({_ANY: behaviour})}
    engine = replace(ENGINES[EngineName.EMULATED], module=__name__, unbuffered=env)
    return replace(tools, engine=engine)


def write_interpreter(folder: Path, behaviours: Mapping[str, Behaviour]) -> Path:
    """Write a program that takes the place of a host's interpreter with SGLang; return its path.

    Each server that it starts behaves as its algorithm is told to.
    """
    package = folder / "packages/sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text(_LAUNCH)
    about = folder / f"packages/sglang-{_VERSION}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {_VERSION}\n")
    env = _variables(behaviours)
    env["PYTHONPATH"] = os.pathsep.join([str(package.parent), env["PYTHONPATH"]])
    path = folder / "interpreter"
    path.write_text(_INTERPRETER.format(python=sys.executable, env=env))
    path.chmod(0o755)
    return path


_LAUNCH = "import sys\nfrom tests.fakes.stand_in import main\nsys.exit(main())\n"
_INTERPRETER = """#!{python}
import os, sys
os.execve({python!r}, [{python!r}, *sys.argv[1:]], {{**os.environ, **{env!r}}})
"""


def _variables(behaviours: Mapping[str, Behaviour]) -> dict[str, str]:
    told = {name: asdict(behaviour) for name, behaviour in behaviours.items()}
    return {"PYTHONPATH": str(Path(__file__).parents[2]), _VARIABLE: json.dumps(told)}


class _StandIn:
    """One server, on the event loop of its process."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._does = behaviour
        self._streams = StreamServer(self._script, self._page)
        self._tokens = self._verifies = 0
        self._settled = 0
        self._ended = asyncio.Event()

    async def serve(self, port: int) -> int:
        """Serve until it dies or is told to end; return its exit code."""
        server = await asyncio.start_server(self._streams.answer, "127.0.0.1", port)
        _write(READY)
        await self._ended.wait()
        _write(*self._does.last_lines)
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(self._does.lingers_s)
        return self._does.exit_code

    def _script(self, number: int) -> Script:
        does, number = self._does, number + 1
        limit = _asked_tokens(self._streams.bodies[-1])
        if number == does.dies_in:
            asyncio.get_running_loop().call_later(10 * does.gap_s, self._ended.set)
        whole, rest = divmod(limit - 1, does.chunk_tokens)
        chunks = (1, *[does.chunk_tokens] * whole, *[rest] * (rest > 0))
        fault = does.fault if does.faulty[0] <= number <= does.faulty[1] else Fault.NONE
        fault = Fault.REFUSED if number in does.refused else fault
        return Script(chunks, does.gap_s, fault, verify=does.speculates, cached=does.cached_tokens)

    async def _page(self, path: str) -> bytes | None:
        match path.split("?")[0]:
            case "/health":
                return await self._health()
            case "/server_info" if self._does.tells_settings:
                return _answer(json.dumps(self._info()))
            case "/flush_cache":
                self._settled = 0 if self._does.keeps_count else self._streamed()
                return _answer("Cache flushed.")
            case "/abort_request":
                return _answer("")
            case "/metrics" if self._does.counts_factor is not None:
                return _answer(self._metrics(self._does.counts_factor))
        return _answer("", "404 Not Found")

    async def _health(self) -> bytes | None:
        seen = len(self._streams.bodies)
        if 0 < self._does.mute_from <= seen:
            await asyncio.Event().wait()
        bad = 0 < self._does.sick_from <= seen
        return _answer("", "503 Service Unavailable" if bad else "200 OK")

    def _streamed(self) -> int:
        return sum(log[-1][1] for log in self._streams.sent if log)

    def _info(self) -> dict[str, object]:
        state: dict[str, object] = {}
        if self._does.speculates and self._streamed() > self._settled:
            state["avg_spec_accept_length"] = float(self._does.chunk_tokens)
        return {"version": _VERSION, "internal_states": [state], **self._does.info}

    def _metrics(self, factor: float) -> str:
        tokens = round(factor * self._streamed())
        return f'sglang:generation_tokens_total{{model_name="m"}} {tokens}\n'


def _asked_tokens(body: Mapping[str, object]) -> int:
    params = body.get("sampling_params")
    limit = params["max_new_tokens"] if isinstance(params, dict) else body["max_tokens"]
    return int(str(limit))


def _write(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _answer(body: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def _behaviour(algorithm: str) -> Behaviour:
    by_algorithm = json.loads(os.environ[_VARIABLE])
    told = by_algorithm.get(algorithm, by_algorithm.get(_ANY))
    lists = {name: tuple(v) for name, v in told.items() if isinstance(v, list)}
    return Behaviour(**{**told, **lists, "fault": Fault(told["fault"])})


def main() -> int:
    """Serve as the command line and the environment say."""
    parser = argparse.ArgumentParser()
    own = ("port", "speculative_algorithm")
    parser.add_argument("--port", type=int)
    parser.add_argument("--speculative-algorithm", default=_ANY)
    for name in FLAGS.keys() - own:  # they are listed in its help
        parser.add_argument(f"--{name.replace('_', '-')}", nargs="?")
    known, _ = parser.parse_known_args()
    behaviour = _behaviour(known.speculative_algorithm)
    return asyncio.run(_StandIn(behaviour).serve(known.port))


if __name__ == "__main__":
    sys.exit(main())
