"""The command that holds the flag table against the real parsers, and writes rows for it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.sglang.flag_choices import CHOICES
from infra.sglang.flags import FLAGS
from infra.sglang_cpu.errors import BuildError
from infra.sglang_parsers.build import CHECKED, DEFAULT_ROOT, parser_dump, pinned_versions
from infra.sglang_parsers.compare import MEANT, Difference, differences
from infra.sglang_parsers.rows import Dumps, choices_of, row_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 they agree, 1 they differ or cannot be fetched, 2 wrong usage."""
    chosen = _parser().parse_args(arguments)
    writes = chosen.rows is not None or chosen.choices
    versions = chosen.versions or (pinned_versions() if writes or chosen.all else CHECKED)
    try:
        dumps = {version: parser_dump(version, chosen.root, _tell) for version in versions}
    except BuildError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if writes:
        return _write(dumps, chosen.rows or (), choices=chosen.choices)
    return _compare(dumps)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m infra.sglang_parsers", description=__doc__)
    parser.add_argument("--root", type=Path, default=DEFAULT_ROOT, help="default: %(default)s")
    parser.add_argument("--versions", nargs="+", choices=pinned_versions(), metavar="VERSION")
    parser.add_argument("--all", action="store_true", help="every version that is pinned")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="write the rows of these flags")
    parser.add_argument("--choices", action="store_true", help="write the table of choices anew")
    return parser


def _compare(dumps: Dumps) -> int:
    found = [d for version, dump in dumps.items() for d in differences(version, dump)]
    for difference in found:
        _say(_line(difference))
    for version, dump in dumps.items():
        rows = sum(flag.exists_in(version) for flag in FLAGS.values())
        _say(f"{version}: {len(dump)} spellings, {rows} in the table")
    return int(any(_reason(difference) is None for difference in found))


def _line(difference: Difference) -> str:
    reason = _reason(difference)
    meant = f"meant: {reason}" if reason else "NOT MEANT"
    head = f"{difference.version} {difference.flag} {difference.aspect}"
    return f"{head}: table [{difference.ours}], parser [{difference.theirs}] ({meant})"


def _reason(difference: Difference) -> str | None:
    return next((meant.reason for meant in MEANT if meant.covers(difference)), None)


def _write(dumps: Dumps, names: Sequence[str], *, choices: bool) -> int:
    for name in names:
        try:
            _say(row_of(dumps, name))
        except KeyError:
            sys.stderr.write(f"error: no version has --{name.replace('_', '-')}\n")
            return 2
    for name in names or CHOICES if choices else ():
        if text := choices_of(dumps, name):
            _say(text)
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
