"""The keys that an SGLang server asks for: where a plan finds them, and how the server gets them.

A command line can be read by every user of a machine, so a key goes by SGLang's `--config`, in a
file that only its user can read. SGLang has no variable for it (read in 0.5.2 to 0.5.23).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.redaction import MASK, Redactor
from infra.secret_refs import FORMS, SecretError, is_reference, resolve
from infra.sglang.protocol import SINCE, Feature, has
from infra.whole_file import replacing, write_whole
from sweeps.problems import Problem
from sweeps.values import Value

KEYS = ("api_key", "admin_api_key")
"""The arguments of SGLang that hold a secret."""
OPEN_TO_ALL = ("/health", "/ready", "/metrics")
"""What begins with one of these needs no key."""
ADMIN_ROUTES = (
    "/set_internal_state",
    "/flush_cache",
    "/add_external_corpus",
    "/remove_external_corpus",
    "/list_external_corpora",
    "/abort_request",
)
"""What the admin key opens where there is one, and then no other. Source: SGLang 0.5.23,
srt/utils/auth.py and the marks in http_server.py; older versions know one key."""

_SENDABLE = re.compile(r"[!-,.-~][!-~]*")
"""What a header and SGLang's own parser of options take."""
_UNSENDABLE = "SGLang takes printable ASCII without blanks that does not begin with `-`"
_FILE = "keys.yaml"


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The keys of one server; empty where none is needed."""

    api: str = field(default="", repr=False)
    admin: str = field(default="", repr=False)

    def needed(self, path: str) -> str:
        """Return the key that a path asks for; empty: none."""
        if path.startswith(OPEN_TO_ALL):
            return ""
        return self.admin if self.admin and path in ADMIN_ROUTES else self.api

    def header(self, path: str) -> dict[str, str]:
        """Return what is sent with a request."""
        key = self.needed(path)
        return {"Authorization": f"Bearer {key}"} if key else {}


NO_KEYS = ServerKeys()


@dataclass(frozen=True, slots=True)
class GivenSecrets:
    """What a start gets beside its plan. None of it is written down, but for the file of keys."""

    keys: ServerKeys = NO_KEYS
    words: tuple[str, ...] = ()
    """More words of the command line; they name the file."""
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    def mask(self, log_path: Path) -> None:
        """Take the keys out of a log that has ended: SGLang writes them there. Raises OSError."""
        secrets = {*self.variables.values(), self.keys.api, self.keys.admin} - {""}
        if not secrets or not log_path.is_file():
            return
        hidden = Redactor(secrets)
        with log_path.open("rb") as log, replacing(log_path) as masked:
            for line in log:
                text = line.decode("utf-8", "surrogateescape")
                masked.write(hidden.text(text).encode("utf-8", "surrogateescape"))


def given_secrets(references: Mapping[str, str], folder: Path) -> GivenSecrets:
    """Resolve what a plan refers to, and lay its keys down in a private folder of the start.

    Raises SecretError and OSError.
    """
    if not references:
        return GivenSecrets()
    found = {name: resolve(reference) for name, reference in references.items()}
    keys = {name: found.pop(name) for name in KEYS if name in found}
    for name, key in keys.items():
        if not _SENDABLE.fullmatch(key):
            raise SecretError(f"{references[name]} holds no key: {_UNSENDABLE}")
    words: tuple[str, ...] = ()
    if keys:
        path = folder / _FILE
        # JSON's strings are YAML's, so no key is read as anything but a text.
        lines = [f"{name.replace('_', '-')}: {json.dumps(key)}\n" for name, key in keys.items()]
        write_whole(path, "".join(lines).encode(), 0o600)
        words = (Feature.CONFIG_FILE.value, str(path))
    server_keys = ServerKeys(keys.get("api_key", ""), keys.get("admin_api_key", ""))
    return GivenSecrets(server_keys, words, found)


def key_problems(settings: Mapping[str, tuple[Value, ...]], version: str) -> Iterator[Problem]:
    """List what is wrong with the keys among the settings; each with every value it may take."""
    for name in KEYS:
        values = [value for value in settings.get(name, ()) if value is not None]
        mend = f"Give {FORMS}."
        if len(values) > 1:
            yield Problem(name, MASK, "a key is no axis: it changes no speed", "Put it in `fixed`.")
        elif not all(isinstance(value, str) and is_reference(value) for value in values):
            yield Problem(name, MASK, "a secret does not belong in a space file", mend)
        elif values and not has(Feature.CONFIG_FILE, version):
            flag, since = Feature.CONFIG_FILE.value, SINCE[Feature.CONFIG_FILE]
            why = f"SGLang {version} takes it in its command line alone, which all users can read"
            yield Problem(name, str(values[0]), why, f"Leave it out; {flag} came with {since}.")


def unresolved(settings: Mapping[str, Value]) -> Iterator[Problem]:
    """List the references among the settings that lead to no key on this machine."""
    for name in KEYS:
        reference = settings.get(name)
        if isinstance(reference, str) and is_reference(reference):
            try:
                sendable = _SENDABLE.fullmatch(resolve(reference))
            except SecretError as error:
                yield Problem(f"fixed.{name}", reference, str(error), "Set it, or leave it out.")
                continue
            if not sendable:
                yield Problem(f"fixed.{name}", reference, _UNSENDABLE, "Make another key.")
