"""What is secret in texts and data, and how it is masked before anything is written.

A secret is found by the name that it stands under, and by its value wherever that turns up.
"""

import base64
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

MASK = "[redacted]"

LEAST_VALUE_CHARS = 6
"""A shorter value is masked under its name only: as a text it would be found everywhere."""

_ENVIRONMENT_WORDS = frozenset(
    {"TOKEN", "KEY", "APIKEY", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL",
     "CREDENTIALS"}
)  # fmt: skip
_PARAMETER = re.compile(
    r"(?:^|[_.-])(?:api_?key|password|passwd|passphrase|secret|credentials?"
    r"|(?:access|secret|private|signing)_key|(?:access|auth|bearer|hf|api|refresh|session)_token)$",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")
_AUTHORIZATION = re.compile(r"(?i)\b(authorization\W{1,4}(?:basic|bearer)\s+)[\w.~+/=-]+")
_FLAG = re.compile(r"--([\w-]+)(=?)")
_NO_SECRET = re.compile(r"[\d.]*|true|false|none|null|default", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Tell whether what stands under a name is secret.

    Names in capitals are variables, where TOKEN or KEY as a word is enough. Others are settings and
    fields, where both are common words: `prompt_key` and `draft_tokens` are no secrets.
    """
    if name.isupper():
        return not _ENVIRONMENT_WORDS.isdisjoint(re.split(r"[^A-Z0-9]+", name))
    return _PARAMETER.search(name.replace("-", "_")) is not None


class Redactor:
    """Masks the given secrets, and whatever stands under a secret name. Safe to share."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets if _is_findable(secret) for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._found = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "Redactor":
        """Take the secrets from the variables whose names say that they hold one."""
        variables = os.environ if environ is None else environ
        secrets = [value for name, value in variables.items() if is_secret_name(name)]
        user, password = (variables.get(f"MLFLOW_TRACKING_{x}") for x in ("USERNAME", "PASSWORD"))
        if user and password:
            secrets.append(base64.b64encode(f"{user}:{password}".encode()).decode())
        return cls(secrets)

    def text(self, text: str) -> str:
        """Mask secret values, passwords in addresses, and headers that authorize."""
        if self._found is not None:
            text = self._found.sub(MASK, text)
        if "://" in text:
            text = _USER_INFO.sub(MASK, text)
        return _AUTHORIZATION.sub(rf"\g<1>{MASK}", text)

    def data(self, value: object) -> object:
        """Mask plain data, nested or not, by name and by value; numbers stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._key(name): self._under(name, held) for name, held in value.items()}
        if isinstance(value, list | tuple):
            return self._items(value)
        return value

    def _key(self, name: object) -> object:
        return self.text(name) if isinstance(name, str) else name

    def _under(self, name: object, value: object) -> object:
        if isinstance(name, str) and isinstance(value, str) and value and is_secret_name(name):
            return MASK
        return self.data(value)

    def _items(self, items: Sequence[object]) -> list[object]:
        """Mask the items of a list; one that follows a flag is the flag's value."""
        if items and type(items[0]) in (int, float):  # token ids and times: many, never secret
            return list(items)
        masked: list[object] = []
        flag = ""
        for item in items:
            masked.append(self._under(flag, self._flag_value(item)))
            flag = _flag_name(item)
        return masked

    def _flag_value(self, item: object) -> object:
        """Mask the value in `--flag=value`."""
        match = _FLAG.match(item) if isinstance(item, str) else None
        if isinstance(item, str) and match and match[2] and is_secret_name(match[1]):
            return f"--{match[1]}={MASK}"
        return item


class RedactingFilter(logging.Filter):
    """Masks log records, tracebacks included. Belongs on a handler: it then sees every logger."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor or Redactor.from_environment()
        self._formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask a record; none is held back."""
        record.msg, record.args = self._redactor.text(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = self._formatter.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._redactor.text(record.exc_text)
        return True


def _flag_name(item: object) -> str:
    match = _FLAG.fullmatch(item) if isinstance(item, str) else None
    return match[1] if match else ""


def _is_findable(secret: str) -> bool:
    return len(secret) >= LEAST_VALUE_CHARS and not _NO_SECRET.fullmatch(secret)


def _forms(secret: str) -> set[str]:
    """Return a secret as it is, as JSON writes it, and as an address does."""
    return {secret, json.dumps(secret)[1:-1], quote(secret, safe="")}
