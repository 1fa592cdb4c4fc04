"""An SSH configuration read without OpenSSH: what is surely understood is taken, and no more.

A condition that only OpenSSH can judge never applies; what stands under it is unclear.
"""

import getpass
import glob
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from infra.ssh.config_words import Line, WordsError, matches, matches_list, read_line
from infra.ssh.options import ALGORITHMS, EVERYTHING, LISTS, USED, WITHOUT_EFFECT, Settings
from infra.ssh.tokens import replaced

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
_DEEPEST_INCLUDE = 16
_SWITCHES = frozenset({"yes", "true", "no", "false"})
_ALIASES = {
    "identityfile2": "identityfile", "keepalive": "tcpkeepalive",
    "challengeresponseauthentication": "kbdinteractiveauthentication",
    "pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms",
}  # fmt: skip
_JUDGED = ("host", "originalhost", "user", "localuser")
_NO_ARGUMENT = ("final", "canonical")
_WAYS = ("proxyjump", "proxycommand")
_PORT = re.compile(r"[1-9]\d{0,4}")
_MOST_PORT = 65535


@dataclass(slots=True)
class _Reading:
    """What is known so far about one host."""

    address: str
    user: str | None
    port: int | None
    given: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unclear: dict[str, str] = field(default_factory=dict)
    depth: int = 0

    def file(self, path: Path, base: Path, applies: bool | None) -> None:
        """Read a file; `applies` is None where it is not known whether it does."""
        try:
            text = path.read_text()
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            self._doubt(EVERYTHING, f"{path} cannot be read: {error}", applies)
            return
        now = applies
        for number, written in enumerate(text.split("\n"), 1):
            try:
                line = read_line(written, f"{path} line {number}")
            except WordsError as error:
                self._doubt(EVERYTHING, str(error), now)
                continue
            if line is not None:
                now = self._take(line, base, applies, now)

    def _take(self, line: Line, base: Path, around: bool | None, now: bool | None) -> bool | None:
        """Take one line; return whether the lines after it apply."""
        if line.keyword == "host":
            return _both(around, self._is_host(line))
        if line.keyword == "match":
            return _both(around, self._is_match(line))
        if line.keyword == "include":
            self._include(line, base, now)
        elif now is not False:
            self._option(_ALIASES.get(line.keyword, line.keyword), line, now)
        return now

    def _is_host(self, line: Line) -> bool:
        found = False
        for pattern in line.words:
            if matches(self.address, pattern.removeprefix("!")):
                if pattern.startswith("!"):
                    return False
                found = True
        return found

    def _is_match(self, line: Line) -> bool | None:
        if len(line.words) == 1 and line.words[0].lower() == "all":
            return True
        result: bool | None = True
        words = list(line.words)
        while words:
            word = words.pop(0)
            name, is_joined, value = word.removeprefix("!").partition("=")
            name = name.lower()
            if name in _NO_ARGUMENT:
                self._second_pass(name, word, line)
                result = _both(result, None)
                continue
            if not is_joined:
                value = words.pop(0) if words else ""
            found = self._judge(name, value)
            result = _both(result, found if found is None else found != word.startswith("!"))
        return result

    def _second_pass(self, name: str, word: str, line: Line) -> None:
        if name == "final" and not word.startswith("!"):
            # OpenSSH then reads all once more, by the name that came out.
            self._doubt(EVERYTHING, f"{line.where}: `Match final` needs OpenSSH", None)

    def _judge(self, name: str, value: str) -> bool | None:
        if name not in _JUDGED or not value:
            return None
        if name == "originalhost":
            return matches_list(self.address.lower(), value.lower())
        if name == "localuser":
            return matches_list(getpass.getuser(), value)
        option = "hostname" if name == "host" else "user"
        if option in self.unclear:
            return None
        if name == "host":
            return matches_list(self._hostname().lower(), value.lower())
        user = self.user or (self.given.get("user") or (getpass.getuser(),))[0]
        return matches_list(user, value)

    def _hostname(self) -> str:
        (name,) = self.given.get("hostname", (self.address,))
        return replaced(name, {"h": self.address, "%": "%"}) if "hostname" in self.given else name

    def _include(self, line: Line, base: Path, now: bool | None) -> None:
        # Also where nothing in it applies: a `Match final` counts wherever it stands.
        if self.depth >= _DEEPEST_INCLUDE:
            self._doubt(EVERYTHING, f"{line.where}: files are included too deep", now)
            return
        for pattern in line.words:
            if "%" in pattern or "$" in pattern:
                why = f"{line.where}: the tokens of `Include {pattern}` need OpenSSH"
                self._doubt(EVERYTHING, why, now)
                continue
            whole = str(base / Path(pattern).expanduser())
            self.depth += 1
            for name in sorted(glob.glob(whole)):  # noqa: PTH207 - the pattern is absolute
                self.file(Path(name), base, now)
            self.depth -= 1

    def _option(self, option: str, line: Line, now: bool | None) -> None:
        if option in WITHOUT_EFFECT and option != "canonicalizehostname":
            return
        if (why := _trouble(option, line)) is not None:
            unclear = "hostname" if option == "canonicalizehostname" else option
            self._doubt(unclear, f"{line.where}: {why}", now)
        elif now is None:
            why = f"{line.where}: only OpenSSH can tell whether it applies to {self.address}"
            self._doubt(option, why, now)
        else:
            self._set(option, _values(option, line))

    def _set(self, option: str, values: tuple[str, ...]) -> None:
        """Set an option that applies; the first value counts, and key files add up."""
        if option in ("identityfile", "certificatefile"):
            held = self.given.get(option, ())
            self.given[option] = tuple(dict.fromkeys((*held, *values)))
        elif option in _WAYS and any(one in self.given for one in _WAYS):
            return  # whichever came first
        elif option not in self.given and option != "canonicalizehostname":
            self.given[option] = values

    def _doubt(self, option: str, why: str, now: bool | None) -> None:
        is_open = option not in self.given or option in ("identityfile", "certificatefile")
        # A value that stands already cannot be changed by a later line.
        if option in _WAYS:
            is_open = not any(one in self.given for one in _WAYS)
        if now is not False and is_open:
            self.unclear.setdefault(option, why)


def read(
    address: str, user: str | None, port: int | None, file: Path, system: Path | None
) -> Settings:
    """Return what a configuration says of a host, the user's file before the system's."""
    reading = _Reading(address, user, port)
    reading.file(file, Path("~/.ssh").expanduser(), applies=True)
    if system is not None:
        reading.file(system, system.parent, applies=True)
    return Settings(dict(reading.given), dict(reading.unclear))


def _both(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _values(option: str, line: Line) -> tuple[str, ...]:
    if option in ("proxycommand", "proxyjump"):
        return (line.rest.partition("#")[0].rstrip() if option == "proxyjump" else line.rest,)
    return line.words if option in LISTS else line.words[:1]


def _trouble(option: str, line: Line) -> str | None:
    """Say why the value of an option is not surely understood; None if it is."""
    if option not in USED | {"proxycommand", "canonicalizehostname"}:
        return f"{line.keyword} is not supported"
    if option in ALGORITHMS:
        return f"only OpenSSH can tell what `{line.keyword}` leaves"
    is_several = option in ("userknownhostsfile", "globalknownhostsfile", *_WAYS)
    if len(line.words) > 1 and not is_several:
        return f"{line.keyword} has more than one value"
    checks: Mapping[str, Callable[[str], bool]] = _CHECKS
    values = _values(option, line)
    is_good = all(map(checks.get(option, bool), values))
    return None if is_good else f"`{' '.join(values)}` is no value of {line.keyword} that we read"


def _is_port(value: str) -> bool:
    return _PORT.fullmatch(value) is not None and int(value) <= _MOST_PORT


def _has_only(tokens: str, value: str) -> bool:
    return "$" not in value and set(re.findall("%(.?)", value)) <= set(tokens)


def _is_plain_list(value: str) -> bool:
    return not re.search(r"[\s\"'\\$]", value)


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "port": _is_port,
    "identitiesonly": lambda value: value.lower() in _SWITCHES,
    "canonicalizehostname": lambda value: value.lower() in ("no", "false"),
    "hostname": partial(_has_only, "h%"),
    "user": partial(_has_only, ""),
    "hostkeyalias": partial(_has_only, ""),
    "proxyjump": _is_plain_list,
}
