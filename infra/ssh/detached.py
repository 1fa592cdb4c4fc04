"""Programs in a session of their own there: how they are started, found again and ended."""

import re
from collections.abc import Sequence

from infra.remote import Completed, Detached, RemoteError

# The shell becomes the program, so the pid that it tells is the program's. Its output goes to the
# log only after that, which ends what the starter reads.
_START = """
log=$1; cwd=$2; shift 2
cd "$cwd" || exit 126
case $1 in
  */*) [ -x "$1" ] && [ ! -d "$1" ] || { echo "$1 is no program that can be run" >&2; exit 127; } ;;
  *) command -v "$1" >/dev/null || { echo "$1 is not on the PATH" >&2; exit 127; } ;;
esac
mkdir -p "$(dirname "$log")" && : >>"$log" || exit 125
exec setsid sh -c '
  log=$1; shift
  read -r boot </proc/sys/kernel/random/boot_id
  read -r stat </proc/$$/stat
  set -f; stat=${stat##*) }
  printf "%s %s %s\\n" "$$" "$(set -- $stat; shift 19; echo "$1")" "$boot"
  exec "$@" </dev/null >>"$log" 2>&1' sh "$log" "$@"
"""

_TOLD = re.compile(r"(?P<pid>[1-9]\d{0,9}) (?P<ticks>\d{1,20}) (?P<boot>[0-9a-f-]{1,64})")

# A zombie has ended; its parent has only not looked yet.
_LOOK = """
read -r boot </proc/sys/kernel/random/boot_id
[ "$boot" = "$3" ] || exit 1
read -r stat 2>/dev/null </proc/$1/stat || exit 1
set -f; stat=${stat##*) }; pid=$1; ticks=$2; number=$4
set -- $stat
[ "$1" != Z ] && [ "$1" != X ] || exit 1
shift 19
[ "$1" = "$ticks" ] || exit 1
[ -z "$number" ] || kill -"$number" -- -"$pid" 2>/dev/null || kill -"$number" "$pid"
"""


def start_words(argv: Sequence[str], log_path: str, cwd: str) -> list[str]:
    """Return the words of the launcher."""
    return ["sh", "-c", _START, "sh", log_path, cwd, *argv]


def look_words(process: Detached, number: int | None = None) -> list[str]:
    """Return words that succeed where a process still runs; with a number, it gets that signal."""
    sent = "" if number is None else str(number)
    ids = [str(process.pid), str(process.started_ticks), process.boot_id]
    return ["sh", "-c", _LOOK, "sh", *ids, sent]


def read_start(done: Completed, host: str, program: str) -> Detached:
    """Return what the launcher told. Raises RemoteError."""
    told = _TOLD.fullmatch(done.text.strip())
    if done.code != 0 or told is None:
        raise RemoteError(f"{program} could not be started on {host}: {done.complaint}")
    return Detached(int(told["pid"]), int(told["ticks"]), told["boot"])
