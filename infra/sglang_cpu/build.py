"""The command that builds the environment and the model of a real SGLang without a GPU."""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from infra.redaction import Redactor
from infra.sglang_cpu import layout
from infra.sglang_cpu.errors import BuildError
from infra.sglang_cpu.layout import DEFAULT_ENV, DEFAULT_MODEL, EnvLayout
from infra.sglang_cpu.stamp import (
    BuildState,
    Stamp,
    begin,
    digest_of,
    exclusive,
    is_whole,
    write_stamp,
)
from infra.sglang_cpu.steps import TORCH, Step, env_steps, model_steps

Report = Callable[[str], None]
_WAIT_FOR_ANOTHER_S = 3600
_LOG_NAME = "build.log"


def env_digest() -> str:
    """Return the digest of all that makes up an environment."""
    stand_ins = layout.STAND_INS.rglob("*.py")
    files = [layout.REQUIREMENTS, layout.WARM_UP_SCRIPT, *stand_ins]
    facts = [TORCH, layout.python_version(), platform.machine()]
    return digest_of(files, root=layout.PACKAGE, facts=facts)


def model_digest(env_digest: str) -> str:
    """Return the digest of all that makes up the model."""
    return digest_of([layout.TINY_MODEL_SCRIPT], root=layout.PACKAGE, facts=[env_digest])


def build_directory(directory: Path, digest: str, steps: Sequence[Step], report: Report) -> bool:
    """Build a directory unless it is whole already; tell whether anything was done.

    A directory counts as whole only after its last step. Raises BuildError.
    """
    with exclusive(directory, deadline_s=_WAIT_FOR_ANOTHER_S):
        if is_whole(directory, digest):
            return False
        begin(directory, digest)
        for number, step in enumerate(steps, start=1):
            report(f"[{number}/{len(steps)}] {step.title} …")
            started_s = time.monotonic()
            step.run(directory / _LOG_NAME)
            report(f"      {time.monotonic() - started_s:.1f} s")
        write_stamp(directory, Stamp(BuildState.WHOLE, digest))
    return True


def build(env: EnvLayout, model: Path, report: Report) -> None:
    """Build what is missing of an environment and its model. Raises BuildError."""
    digest = env_digest()
    if _build_and_tell("environment", env.root, digest, env_steps(env), report):
        report(torch_source(env))
    _build_and_tell("model", model, model_digest(digest), model_steps(env, model), report)


def torch_source(env: EnvLayout) -> str:
    """Say which file of torch was installed; no lock can pin it, as each index has another one."""
    try:
        installed = json.loads(env.torch_report.read_text())["install"]
        (found,) = [one for one in installed if one["metadata"]["name"] == "torch"]
        version, source = found["metadata"]["version"], found["download_info"]
        digest = source["archive_info"]["hashes"]["sha256"]
        return Redactor(()).text(f"torch {version} is from {source['url']}, sha256 {digest}")
    except (OSError, ValueError, KeyError, TypeError):
        return f"torch: {env.torch_report} does not tell where it is from"


def _build_and_tell(
    what: str, directory: Path, digest: str, steps: Sequence[Step], report: Report
) -> bool:
    done = build_directory(directory, digest, steps, report)
    report(f"{what} {'built' if done else 'up to date'}: {directory}")
    return done


def is_built(env: EnvLayout, model: Path) -> bool:
    """Tell whether the environment and the model are whole and of this version."""
    digest = env_digest()
    return is_whole(env.root, digest) and is_whole(model, model_digest(digest))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 built or up to date, 1 failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m infra.sglang_cpu.build", description=__doc__)
    parser.add_argument("--env", type=Path, default=DEFAULT_ENV, help="default: %(default)s")
    parser.add_argument("--model", type=Path, default=DEFAULT_MODEL, help="default: %(default)s")
    chosen = parser.parse_args(arguments)
    try:
        build(EnvLayout(chosen.env.absolute()), chosen.model.absolute(), _print_line)
    except BuildError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
