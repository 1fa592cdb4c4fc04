"""Runs a program and tells the processor time of it and all that it started, once all are over."""

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import psutil

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: processes whose parent has died become children of this one."""
_GRACE_S = 10.0


def main() -> int:
    """Run `metered.py ACCOUNT DEADLINE_S PROGRAM ...` and write the account; exit as it did."""
    account, deadline_s, *argv = sys.argv[1:]
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    program = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    code = 124
    try:
        code = program.wait(float(deadline_s))
    except subprocess.TimeoutExpired:
        print("it did not end in time", file=sys.stderr)
    finally:
        _end_all(0.0 if code else _GRACE_S)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(account).write_text(json.dumps({"cpu_s": spent.ru_utime + spent.ru_stime}))
    return code


def _end_all(grace_s: float) -> None:
    """Wait for what is left, then kill it: all of them are descendants of this process."""
    until_s = time.monotonic() + grace_s
    while left := psutil.Process().children(recursive=True):
        if time.monotonic() > until_s:
            for process in left:
                process.kill()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
