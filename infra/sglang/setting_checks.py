"""What a space may not ask of a version of SGLang, found before any server starts."""

from collections.abc import Mapping

from infra.sglang.flags import ENVIRONMENT, FLAGS, NEUTRAL, Flag, spelled
from sweeps.axes import is_environment
from sweeps.problems import Problem, nearest
from sweeps.values import Value, show


def setting_problems(settings: Mapping[str, tuple[Value, ...]], version: str) -> list[Problem]:
    """Check names and values against a version; `settings` holds every value that may be used."""
    found = []
    for name, values in settings.items():
        if is_environment(name):
            found += _environment_problems(name, values)
        else:
            found += _flag_problems(name, spelled(name, version), values, version)
    return found


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
    name: str, flag_name: str, values: tuple[Value, ...], version: str
) -> list[Problem]:
    flag = FLAGS.get(flag_name)
    if flag is None:
        mend = nearest(name, [*FLAGS, *NEUTRAL]) or "If SGLang has it, add it to FLAGS."
        return [Problem(name, _list(values), "SGLang has no such argument", mend)]
    if not flag.exists_in(version):
        return [Problem(name, _list(values), f"SGLang {version} does not know it", _span(flag))]
    return [
        Problem(name, show(value), why, "Change the value.")
        for value in values
        if (why := _misfit(flag, value, version))
    ]


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
