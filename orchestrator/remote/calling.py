"""Calls ours on a host: one question and its answer, or news for as long as there is any."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.inventory import HostEntry
from infra.ours import interpreter_on, ours_on
from infra.remote import LinkLostError, Remote, RemoteError
from orchestrator.remote.answers import bad_answer, read_answer
from orchestrator.remote.place import Place

ASK_S = 120.0
"""Wall seconds for an answer; a busy host is slow to start an interpreter."""
LOOK_S = 0.5
_EXIT_S = 10.0
_SEND_S = 30.0
_LONGEST_LINE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class There:
    """Ours on one host."""

    remote: Remote
    python: str
    place: Place

    @classmethod
    def on(cls, remote: Remote, host: HostEntry) -> "There":
        """Find ours. Raises RemoteError."""
        root = ours_on(remote, host).root
        return cls(remote, interpreter_on(remote, host), Place(Path(root)))

    def ask(
        self, verb: str, data: Mapping[str, Any] | None = None, *, repeatable: bool = True
    ) -> dict[str, Any]:
        """Return the answer to a question, in the form of its verb. Raises RemoteError."""
        done = self.remote.run(
            self._argv(verb), cwd="/", stdin=_line(data), deadline_s=ASK_S, repeatable=repeatable
        )
        if done.code != 0:
            raise self._unable(done.code, done.complaint)
        return read_answer(self.remote.name, verb, done.stdout)

    def raw(self, verb: str, data: Mapping[str, Any], deadline_s: float) -> bytes:
        """Return an answer that is no JSON. Raises RemoteError."""
        done = self.remote.run(
            self._argv(verb), cwd="/", stdin=_line(data), deadline_s=deadline_s, repeatable=True
        )
        if done.code != 0:
            raise self._unable(done.code, done.complaint)
        if done.truncated:
            raise bad_answer(self.remote.name, "more than was asked for")
        return done.stdout

    def talk(self, verb: str, data: Mapping[str, Any]) -> Iterator[dict[str, Any] | None]:
        """Yield what is told, and None for each moment without a word, until it ends by itself.

        Raises RemoteError: LinkLostError where only the connection ended.
        """
        with self.remote.open(self._argv(verb), cwd="/") as stream:
            stream.write(_line(data), _SEND_S)
            rest, was_told = b"", False
            while (chunk := stream.read(LOOK_S)) != b"":
                if chunk is None:
                    yield None
                    continue
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > _LONGEST_LINE_BYTES:
                    raise bad_answer(self.remote.name, "a line without an end")
                for line in lines:
                    was_told = True
                    yield read_answer(self.remote.name, verb, line)
            code = stream.exit_code(_EXIT_S)
        if code > 0 and not was_told:
            raise self._unable(code, f"{self.python} ended with {code}")
        if code != 0:
            raise LinkLostError(f"{self.remote.name}: what told us the news ended with {code}")

    def _argv(self, verb: str) -> list[str]:
        return [self.python, "-m", "orchestrator.remote.there", verb, str(self.place.root)]

    def _unable(self, code: int, complaint: str) -> RemoteError:
        name = self.remote.name
        if code in (126, 127) or "No module named" in complaint:
            mend = f"`python -m orchestrator hosts prepare {name}` puts it there."
            return RemoteError(f"{name}: ours is not there ({complaint}). {mend}")
        return RemoteError(f"{name}: {complaint}")


def _line(data: Mapping[str, Any] | None) -> bytes:
    return json.dumps(data or {}).encode() + b"\n"
