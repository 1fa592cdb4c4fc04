"""What a space may not ask of a version of SGLang, found before any server starts."""

from collections.abc import Mapping

from infra.sglang.flag import Flag
from infra.sglang.flags import FLAGS
from infra.sglang.neutral import NEUTRAL, neutral_name, relatives, spelled
from infra.sglang.server_keys import KEYS, key_problems
from infra.sglang.variables import ENVIRONMENT
from sweeps.axes import is_environment
from sweeps.problems import Problem, nearest
from sweeps.values import Value, show


def setting_problems(
    settings: Mapping[str, tuple[Value, ...]],
    version: str,
    accepted: frozenset[str] | None = None,
) -> list[Problem]:
    """Check names and values against a version; `settings` holds every value that may be used.

    `accepted` are the flags that a host's own server names in its help, `--page-size` or
    `page_size`: they decide which exist, whatever the table says of the version. A variable that
    is in no table is a problem, since a misspelt one would be ignored without a word.
    """
    known = None if accepted is None else frozenset(map(_name_of, accepted))
    found = []
    for name, values in settings.items():
        if name in KEYS:
            continue
        if is_environment(name):
            found += _environment_problems(name, values)
        else:
            found += _flag_problems(name, spelled(name, version), values, version, known)
    return [*found, *key_problems(settings, version)]


def _name_of(option: str) -> str:
    return option.lstrip("-").replace("-", "_")


def _environment_problems(name: str, values: tuple[Value, ...]) -> list[Problem]:
    if name not in ENVIRONMENT:
        mend = nearest(name, ENVIRONMENT) or f"Known are {', '.join(ENVIRONMENT)}."
        return [Problem(name, _list(values), "no such environment variable is known", mend)]
    allowed = ENVIRONMENT[name]
    return [
        Problem(name, show(v), "not a value of this variable", f"Use {', '.join(allowed)} or None.")
        for v in values
        if v is not None and allowed and str(v) not in allowed
    ]


def _flag_problems(
    name: str,
    flag_name: str,
    values: tuple[Value, ...],
    version: str,
    accepted: frozenset[str] | None,
) -> list[Problem]:
    flag = FLAGS.get(flag_name)
    if accepted is not None and flag_name not in accepted:
        return [_not_accepted(name, flag_name, values, accepted, version)]
    if flag is None:
        if accepted is not None:
            return []  # the host knows it, and nobody else can say what its values may be
        mend = nearest(name, [*FLAGS, *NEUTRAL]) or "If SGLang has it, add it to FLAGS."
        return [Problem(name, _list(values), "SGLang has no such argument", mend)]
    if accepted is None and not flag.exists_in(version):
        return [Problem(name, _list(values), f"SGLang {version} does not know it", _span(flag))]
    return [
        Problem(name, show(value), why, "Change the value.")
        for value in values
        if (why := _misfit(flag, value, version))
    ]


def _not_accepted(
    name: str,
    flag_name: str,
    values: tuple[Value, ...],
    accepted: frozenset[str],
    version: str,
) -> Problem:
    """Name the flag that the host has instead: another spelling of the knob, or the nearest."""
    option = f"--{flag_name.replace('_', '-')}"
    instead = next((other for other in relatives(flag_name) if other in accepted), "")
    mend = f"It has `{instead}` instead." if instead else nearest(flag_name, sorted(accepted))
    neutral = neutral_name(flag_name)
    if instead and neutral not in ("", name):
        mend += f" The name `{neutral}` stands for both."
    why = f"SGLang {version} of this host has no {option}"
    return Problem(name, _list(values), why, mend or "Take the axis out.")


def _misfit(flag: Flag, value: Value, version: str) -> str:
    if value is None:
        return ""
    choices = flag.choices_in(version)
    wanted = (int, float) if flag.kind is float else flag.kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and flag.kind is not bool):
        return f"a value of type {flag.kind.__name__} is needed"
    if choices and value not in choices:
        return f"it must be one of {', '.join(choices)}"
    if flag.low is not None and isinstance(value, int | float) and value < flag.low:
        return f"it must be at least {flag.low:g}"
    return ""


def _span(flag: Flag) -> str:
    if flag.last is None:
        return f"It came with {flag.first}."
    return f"It exists from {flag.first} to {flag.last}."


def _list(values: tuple[Value, ...]) -> str:
    shown = ", ".join(show(value) for value in values[:4])
    return shown + (", …" if len(values) > 4 else "")
