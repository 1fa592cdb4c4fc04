"""The first process of a PID namespace: runs a command, collects orphans, ends as the command did.

With it a mutant of the guard can signal and leave behind what it likes: no process outside is
reached, and all of the namespace ends with this process.
"""

import os
import subprocess
import sys


def main(argv: list[str]) -> int:
    """Run a command; return its exit code."""
    program = subprocess.Popen(argv, start_new_session=True)
    while True:
        pid, status = os.wait()
        if pid == program.pid:
            return abs(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
