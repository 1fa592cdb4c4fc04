"""Over which versions of SGLang a set of options means the same."""

from collections.abc import Mapping

from infra.sglang.flags import spelled, version_key
from infra.sglang.setting_checks import setting_problems
from sweeps.values import Value

RELEASES = (
    "0.5.2", "0.5.3", "0.5.4", "0.5.5", "0.5.6.post2", "0.5.7", "0.5.8", "0.5.9", "0.5.10",
    "0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.15", "0.5.16", "0.5.17", "0.5.18", "0.5.19",
    "0.5.20", "0.5.21", "0.5.22", "0.5.23",
)  # fmt: skip
"""Those whose parsers the flag table was held against."""


def takes_the_same(settings: Mapping[str, Value], version: str) -> tuple[str, str]:
    """Return the first and the last release around a version that take settings by one spelling.

    Only the version itself where the table does not know all of the settings.
    """
    at = version_key(version)
    before = [release for release in reversed(RELEASES) if version_key(release) < at]
    after = [release for release in RELEASES if version_key(release) > at]
    ends = []
    for line in (before, after):
        end = version
        for release in line:
            if not _is_alike(settings, version, release):
                break
            end = release
        ends.append(end)
    return ends[0], ends[1]


def _is_alike(settings: Mapping[str, Value], version: str, other: str) -> bool:
    given = {name: (value,) for name, value in settings.items() if value is not None}
    if any(spelled(name, version) != spelled(name, other) for name in given):
        return False
    return not setting_problems(given, other)
