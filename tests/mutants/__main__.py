"""Changes modules in small ways, one at a time, and counts how many changes some test notices.

    make mutants                         # all subjects; goes on where it was interrupted
    python -m tests.mutants --subject guard --again    # survivors once more, after new tests

A sample of 300, drawn by a seed, is judged by the tests that cover the module. All of it happens in
a copy of the tree under bench/out, on one core and with low priority. cosmic-ray makes the
changes, since it writes them to the files: the guard and other programs run as processes of their
own, where a change that is only switched on in this process would not be seen. Exits with 1 where
a subject has fewer noticed than LEAST_NOTICED of those that are not accepted, or none was tried.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from infra.file_lock import FileLock
from tests.mutants.judging import ACCEPTED, Mutant, Verdict, accepted_in, judge
from tests.mutants.subjects import SUBJECTS, Subject

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
OUT = ROOT / "bench" / "out" / "mutants"
SEED = 17
LEAST_NOTICED = 0.85
_INSTALL_S = 600.0


def main() -> int:
    """Run what is left of the chosen subjects, and print all that is known."""
    options = _parser().parse_args()
    names = options.subject or list(SUBJECTS)
    env = _environment()
    verdicts = {}
    for name in names:
        session = _session_path(name, SUBJECTS[name])
        if not options.report:
            with _only_one(name):
                _prepare(env, name, SUBJECTS[name], session)
                if options.again:
                    _in(env, "again", str(session))
                _exec(env, name, SUBJECTS[name], session)
        mutants = _mutants(env, session) if session.exists() else []
        verdicts[name] = judge(mutants, accepted_in(ACCEPTED))
    Console().print(_table(verdicts))
    for verdict in verdicts.values():
        for mutant in verdict.survivors:
            print(
                f"{mutant.module}:{mutant.line} {mutant.definition}\n  {mutant.was}\n  {mutant.now}"
            )
    is_good = all(v.tried and v.share >= LEAST_NOTICED for v in verdicts.values())
    return 0 if is_good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--subject", action="append", choices=SUBJECTS, help="One or several.")
    parser.add_argument("--again", action="store_true", help="Try the survivors once more.")
    parser.add_argument("--report", action="store_true", help="Try nothing; print what is known.")
    return parser


def _environment() -> Path:
    """Make cosmic-ray's environment where it is not there; return its programs."""
    env = OUT / "env"
    if not (env / "installed").exists():
        uv = (sys.executable, "-m", "uv")
        _run(*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(env))
        pins = str(HERE / "requirements.txt")
        _run(*uv, "pip", "install", "--quiet", "--require-hashes", "--python", str(env), "-r", pins)
        (env / "installed").touch()
    return env / "bin"


@contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Keep others out of the tree of a subject: who copies files would undo a change on trial."""
    OUT.mkdir(parents=True, exist_ok=True)
    lock = FileLock.take(OUT / f"{name}.lock")
    if lock is None:
        sys.exit(f"mutants of {name} are being tried already; --report shows what is known")
    try:
        yield
    finally:
        lock.release()


def _session_path(name: str, subject: Subject) -> Path:
    """Return the session for the modules as they are now."""
    content = b"".join(path.read_bytes() for path in _files(ROOT, subject))
    key = hashlib.sha256(content + str(subject.mutants).encode()).hexdigest()[:12]
    return OUT / f"{name}-{key}.sqlite"


def _prepare(env: Path, name: str, subject: Subject, session: Path) -> None:
    """Copy the tree, and draw the mutants unless that is done."""
    tree = _copied_tree(name)
    config = OUT / f"{name}.toml"
    command = " ".join(subject.argv)  # cosmic-ray splits it at blanks, and starts no shell
    config.write_text(
        f"[cosmic-ray]\nmodule-path = {json.dumps(list(subject.modules))}\n"
        f"timeout = {subject.limit_s}\nexcluded-modules = []\n"
        f"test-command = {json.dumps(command)}\n"
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    if not session.exists():
        begun = session.with_suffix(".new")
        begun.unlink(missing_ok=True)
        _run(str(env / "cosmic-ray"), "init", str(config), str(begun), cwd=tree)
        others = [one for s in SUBJECTS.values() for one in s.modules if one not in subject.modules]
        _in(env, "sample", str(begun), str(subject.mutants), str(SEED), *others)
        begun.rename(session)


def _copied_tree(name: str) -> Path:
    """Copy what git knows, as it is now: a run that was killed may have left a changed module."""
    tree = OUT / f"tree-{name}"
    tree.mkdir(parents=True, exist_ok=True)
    listed = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for path in filter(None, listed.split("\0")):
        source, target = ROOT / path, tree / path
        if source.is_file() and not _is_same(source, target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    return tree


def _is_same(source: Path, target: Path) -> bool:
    return target.exists() and target.read_bytes() == source.read_bytes()


def _files(root: Path, subject: Subject) -> Iterator[Path]:
    for module in subject.modules:
        path = root / module
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _exec(env: Path, name: str, subject: Subject, session: Path) -> None:
    """Try what is left. First the tests must pass on the tree as it is."""
    tree = OUT / f"tree-{name}"
    # The first run leaves bytecode for all others.
    known = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    variables = {**known, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    _run(*subject.argv, cwd=tree, env=variables)
    _run(str(env / "cosmic-ray"), "exec", str(OUT / f"{name}.toml"), str(session), cwd=tree,
         env=variables)  # fmt: skip


def _mutants(env: Path, session: Path) -> list[Mutant]:
    return [
        Mutant.from_data(json.loads(line)) for line in _in(env, "show", str(session)).splitlines()
    ]


def _in(env: Path, *words: str) -> str:
    return _run(str(env / "python"), str(HERE / "session.py"), *words)


def _run(*argv: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """Run a program on one core; return what it printed. Exits where it fails."""
    done = subprocess.run(
        argv, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, check=False,
        preexec_fn=_be_modest,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(argv)} exited with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def _be_modest() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.nice(10)


def _table(verdicts: Mapping[str, Verdict]) -> Table:
    table = Table("subject", "drawn", "tried", "noticed", "accepted", "share of the rest")
    for name, one in verdicts.items():
        counts: list[Any] = [one.drawn, one.tried, one.noticed, one.accepted, f"{one.share:.1%}"]
        table.add_row(name, *map(str, counts))
    return table


if __name__ == "__main__":
    sys.exit(main())
