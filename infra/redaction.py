"""What is secret in texts and data, and how it is masked before anything is written.

A secret is found by the name that it stands under, by the form of the text around it, and by its
value. Keys, names and enums are read back, so a value that may be one of these is looked for in
free text alone.
"""

import base64
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from urllib.parse import quote

from infra import secret_refs

MASK = "[redacted]"

LEAST_VALUE_CHARS = 6
"""A shorter value is masked under its name only: as a text it would be found everywhere."""

LEAST_SURE_CHARS = 12
"""From this length on, letters with digits are no word of our files by chance (assumption)."""

IDENTIFIERS = frozenset(
    {"trial", "sweep", "sweep_id", "run", "run_id", "host", "name", "kind", "fingerprint", "key",
     "variant", "hash", "digest", "file", "folder", "path", "model_path", "version"}
)  # fmt: skip
"""Fields that are read back: in one word of these, no value of a secret is looked for."""

_WORDS = frozenset(
    {"TOKEN", "KEY", "APIKEY", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS",
     "PWD", "PW", "PAT", "CREDENTIAL", "CREDENTIALS", "CREDS", "COOKIE", "COOKIES", "AUTHORIZATION",
     "BEARER", "JWT", "DSN", "SAS", "WEBHOOK"}
)  # fmt: skip
"""Any of these as a word makes the name of a variable secret."""
_GLUED = ("PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "SECRET", "TOKEN", "APIKEY", "CREDENTIALS")
"""Words that names such as PGPASSWORD end with."""
_NOT_GLUED = ("BYPASS", "COMPASS")
_FOLDERS = frozenset({"PWD", "OLDPWD"})
"""What a shell calls the folders that it is in and was in."""

_PARAMETER = re.compile(
    r"(?:^|_)(?:(?:api|app|license)_?keys?|\w*(?:password|passwd|passphrase)|pwd|secrets?"
    r"|credentials?|creds|cookies?|authorization|bearer|jwt|dsn|webhook|(?:github|gitlab|git)_pat"
    r"|(?:access|secret|private|signing|encryption|account|shared|master)_?key(?:_id)?)$"
)
_TOKEN = re.compile(r"(?:^|_)([a-z0-9]+)_token$")
_OF_TEXT = frozenset(
    {"bos", "eos", "pad", "unk", "sep", "cls", "mask", "stop", "start", "end", "first", "next",
     "last", "new", "per", "each", "input", "output", "prompt", "draft", "special", "think",
     "image", "audio", "video", "bonus"}
)  # fmt: skip
"""What stands before `token` where that is a piece of text."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# Every pattern begins at a fixed place and looks back at nothing twice: texts may be megabytes.
_USER_INFO = re.compile(r"(?<=://)[^/\s\"'<>]+(?=@[^\s@])")
_SIGNED = re.compile(
    r"(?i)([?&;](?:x-(?:amz|goog)-(?:signature|credential|security-token)|awsaccesskeyid|signature"
    r"|sig|googleaccessid|key|token|auth|code)=)[^&#;\s\"'<>]+"
)
_NAME = re.compile(
    r"(?<![\w.-])(?P<flag>--)?(?P<name>[A-Za-z_][\w.-]{0,63})(?P<close>\\?[\"'])?"
    r"(?:\s{0,4}(?:[=:]|(?(close),(?=\s{0,4}b?[\"'])|(?!)))\s{0,4}b?(?=[\"'])"
    r"|\s{0,4}[=:]\s{0,4}|(?(flag)[ \t]{1,4}|(?!)))",
)
"""A name, and what stands between it and its value."""
_VALUE = re.compile(
    r"(?P<quote>\\?[\"'])(?P<quoted>(?:(?!(?P=quote))(?:\\.|[^\n\\]))*)(?P=quote)"
    r"|\\?[\"'](?P<cut>\S+)"
    r"|(?P<bare>(?:(?:basic|bearer|token|digest|negotiate|apikey)\s{1,4})?[^\s\"'\\,;&)\]}<>]+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(?:basic|bearer|token|digest|negotiate|apikey)\s+", re.IGNORECASE)
"""What may stand before the secret in a header that authorizes."""
_TO_THE_END = re.compile(r"(?im)(?<![\w-])((?:set-)?cookie\s{0,4}[:=]\s{0,4})[^\n\"']+")
_FLAG = re.compile(r"--([\w-]+)(=?)")
_NO_SECRET = re.compile(r"[\d.]*|true|false|none|null|default|\W*", re.IGNORECASE)
_SAYS_NOTHING = re.compile(r"none|null|unset|true|false|\W*", re.IGNORECASE)
_MARKS = ("=", ":", "--", "'", '"')
"""No setting stands in a text without any."""
_PATH = re.compile(r"(?:~|\.{1,2})?/")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Tell whether what stands under a name is secret.

    Names in capitals are variables, where TOKEN or KEY as a word is enough. Others are settings,
    fields and headers, where both are common words: `prompt_key` and `draft_tokens` are no secrets.
    """
    if name.isupper():
        words = re.split(r"[^A-Z0-9]+", name)
        return name not in _FOLDERS and any(map(_is_secret_word, words))
    plain = _CAMEL.sub("_", re.sub(r"[-.\s]", "_", name)).lower()
    token = _TOKEN.search(plain)
    return _PARAMETER.search(plain) is not None or bool(token and token[1] not in _OF_TEXT)


def _is_secret_word(word: str) -> bool:
    return word in _WORDS or (word.endswith(_GLUED) and not word.endswith(_NOT_GLUED))


class Redactor:
    """Masks the given secrets, and whatever stands under a secret name. Safe to share."""

    def __init__(self, secrets: Iterable[str]) -> None:
        findable = {secret for secret in secrets if _is_findable(secret)}
        self._found = _any_of(findable)
        self._surely_found = _any_of({secret for secret in findable if _is_sure(secret)})

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "Redactor":
        """Take the secrets from variables by their names, and those that references led to."""
        variables = os.environ if environ is None else environ
        secrets = [value for name, value in variables.items() if is_secret_name(name)]
        secrets += secret_refs.resolved()
        user, password = (variables.get(f"MLFLOW_TRACKING_{x}") for x in ("USERNAME", "PASSWORD"))
        if user and password:
            secrets.append(base64.b64encode(f"{user}:{password}".encode()).decode())
        return cls(secrets)

    def text(self, text: str) -> str:
        """Mask free text: secret values, addresses, headers, options and settings."""
        if self._found is not None:
            text = self._found.sub(MASK, text)
        return _by_form(text)

    def value(self, name: object, value: object) -> object:
        """Mask what stands under a name; see `data`."""
        if not isinstance(value, str):
            return self.data(value)
        if not isinstance(name, str) or not value:
            return self._string(value)
        if is_secret_name(name):
            return value if secret_refs.is_reference(value) else MASK
        word = name in IDENTIFIERS and not any(map(str.isspace, value))
        return _by_form(value) if word else self._string(value)

    def data(self, value: object) -> object:
        """Mask plain data, nested or not, by name, form and value. Keys and numbers stay.

        A string of one word, and a path, may be read back: of these only what is surely a secret.
        """
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, Mapping):
            return {name: self.value(name, held) for name, held in value.items()}
        if isinstance(value, list | tuple):
            return self._items(value)
        return value

    def _string(self, text: str) -> str:
        if not _PATH.match(text) and any(map(str.isspace, text)):
            return self.text(text)
        if self._surely_found is not None:
            text = self._surely_found.sub(MASK, text)
        return _by_form(text)

    def _items(self, items: Sequence[object]) -> list[object]:
        """Mask the items of a list; one that follows a flag is the flag's value."""
        if items and type(items[0]) in (int, float):  # token ids and times: many, never secret
            return list(items)
        masked: list[object] = []
        flag = ""
        for item in items:
            masked.append(self.value(flag, item))
            flag = _flag_name(item)
        return masked


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


def _by_form(text: str) -> str:
    if "://" in text:
        text = _SIGNED.sub(rf"\g<1>{MASK}", _USER_INFO.sub(MASK, text))
    if any(mark in text for mark in _MARKS):
        text = _without_settings(_TO_THE_END.sub(rf"\g<1>{MASK}", text))
    return text


def _without_settings(text: str) -> str:
    """Mask the value of each secret name; that of another name is looked at for names itself."""
    pieces, done = [], 0
    for name in _NAME.finditer(text):
        named = is_secret_name(name["name"]) or (name["flag"] and name["name"] == "token")
        if not named or name.start() < done or not (value := _VALUE.match(text, name.end())):
            continue
        part = next(one for one in ("quoted", "cut", "bare") if value[one] is not None)
        if value[part].startswith(MASK[:-1]) or _says_nothing(value[part]):
            continue
        scheme = _SCHEME.match(text, value.start(part), value.end(part))
        pieces += [text[done : scheme.end() if scheme else value.start(part)], MASK]
        done = value.end(part)
    return "".join([*pieces, text[done:]])


def _says_nothing(value: str) -> bool:
    return _SAYS_NOTHING.fullmatch(value) is not None or secret_refs.is_reference(value)


def _flag_name(item: object) -> str:
    match = _FLAG.fullmatch(item) if isinstance(item, str) else None
    return match[1] if match else ""


def _is_findable(secret: str) -> bool:
    return len(secret) >= LEAST_VALUE_CHARS and not _NO_SECRET.fullmatch(secret)


def _is_sure(secret: str) -> bool:
    """Tell whether a value is no word, name or path that stands in our files by chance."""
    if _PATH.match(secret):
        return False
    if not re.fullmatch(r"[\w.:/-]+", secret, re.ASCII):
        return True
    mixed = any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))
    return len(secret) >= LEAST_SURE_CHARS and mixed


def _any_of(secrets: Iterable[str]) -> re.Pattern[str] | None:
    forms = {form for secret in secrets for form in _forms(secret)}
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, longest_first))) if forms else None


def _forms(secret: str) -> set[str]:
    """Return a secret as it is, as JSON writes it, and as an address does."""
    return {secret, json.dumps(secret)[1:-1], quote(secret, safe="")}
