"""Exports that a user changed are read as their programs read them, refused, or named as edited.

Each row names the page of the reference that the right answer is from.
"""

import random
import subprocess
from pathlib import Path

import pytest

from sweeps.exporters import EXPORTERS, Launch
from sweeps.exporters.launches import UnreadableExportError, edits
from sweeps.exporters.shell_words import statements, value_of
from tests.sweeps.exports import KEPT, REAL, recommended

LAUNCH = Launch(KEPT, {"NCCL_PROTO": "LL"})
SH, UNIT, COMPOSE, K8S, YAML = "sh", "systemd", "docker-compose", "kubernetes", "yaml"
EXEC = 'exec "${PYTHON:-$default_python}"'
PROGRAM = EXEC.removeprefix("exec ")
EXPORT = "export NCCL_PROTO=LL"
ENV_LL = "      NCCL_PROTO: LL\n"
K8S_LL = "        - name: NCCL_PROTO\n          value: LL\n"
LINE = "Environment=NCCL_PROTO=LL\n"
START = 'ExecStart="/other venv/bin/python"'
TP = "    - --tp-size\n    - '8'\n"
K8S_TP = "        - --tp-size\n        - '8'\n"
COUNT = "            count: 8\n"

SAME: list[tuple[str, str, str, str]] = [
    # Format, source of the rule, what is replaced, and by what that reads the same.
    (SH, "XCU 2.2.2", "NCCL_PROTO=LL", "NCCL_PROTO='LL'"),
    (SH, "XCU 2.2.1", "NCCL_PROTO=LL", r"NCCL_PROTO=\L\L"),
    (SH, "XCU 2.6.2", EXPORT, 'P=L\nexport NCCL_PROTO="${P}L"'),
    (SH, "XCU 2.6.2", EXPORT, "P=\nexport NCCL_PROTO=${P:-LL}"),
    (SH, "XCU 2.14 export", EXPORT, "NCCL_PROTO=LL\nexport NCCL_PROTO"),
    (SH, "XCU 2.14 set", EXPORT, "set -a; NCCL_PROTO=LL; set +a"),
    (SH, "XCU 2.14 unset", EXPORT, f"export A=1\nunset A\n{EXPORT}"),
    (SH, "XCU 2.9.1", f"{EXPORT}\n", ""),
    (SH, "XCU 2.3", "--tp-size 8 \\\n", "--tp-size \\\n 8 \\\n"),
    (SH, "XCU 2.3", "--tp-size 8", "--tp-size  8"),
    (SH, "argparse", "--tp-size 8", "--tp-size=8"),
    (SH, "env(1)", EXEC, f"exec env NCCL_PROTO=LL {PROGRAM}"),
    (SH, "the script's own defaults", '"${PORT:-30000}"', '"${PORT:-8000}"'),
    (SH, "options of the place", '--port "${PORT:-30000}"', '--port "$MY_PORT"'),
    ("env", "systemd.exec(5): EnvironmentFile", "NCCL_PROTO=LL", "NCCL_PROTO='LL'"),
    ("env", "systemd.exec(5): EnvironmentFile", "NCCL_PROTO=LL", '# why\nNCCL_PROTO="L""L"  '),
    ("env", "systemd.exec(5): EnvironmentFile", "NCCL_PROTO=LL", "NCCL_PROTO=L\\\nL"),
    (UNIT, "systemd.syntax(7)", LINE, "Environment='NCCL_PROTO=LL'\n"),
    (UNIT, "systemd.syntax(7)", LINE, 'Environment="NCCL_PROTO=\\x4c\\114"\n'),
    (UNIT, "systemd.syntax(7)", "--tp-size 8 \\\n", "--tp-size \\\n# why\n  8 \\\n"),
    (UNIT, "systemd.exec(5)", LINE, f"Environment=A=1\nEnvironment=\n{LINE}"),
    (UNIT, "systemd.service(5)", START, f"ExecStart=/bin/false\nExecStart=\n{START}"),
    (UNIT, "systemd.exec(5)", "Type=exec\n", "Type=exec\nUser=sglang\nGroup=sglang\n"),
    (UNIT, "env(1)", START, 'ExecStart=/usr/bin/env "/other venv/bin/python"'),
    (UNIT, "systemd.unit(5)", "[Install]", "[X-Mine]\nEnvironment=A=1\n[Install]"),
    (COMPOSE, "compose-spec 05-services: environment", ENV_LL, "      - NCCL_PROTO=LL\n"),
    (COMPOSE, "YAML 1.2", "    ipc: host\n", "    ipc: 'host'\n"),
    (COMPOSE, "compose-spec 05-services: image", "registry/sglang", "other/sglang"),
    (COMPOSE, "compose-spec 12-interpolation", "    - '30000'\n", "    - ${PORT:-30000}\n"),
    (COMPOSE, "compose-spec deploy: device_ids", COUNT,
     "            device_ids: ['0', '1', '2', '3', '4', '5', '6', '7']\n"),
    (K8S, "EnvVar", "value: LL", "value: 'LL'"),
    (K8S, "Define dependent environment variables", K8S_LL,
     "        - name: NCCL_PROTO\n          value: $$(P)\n        - name: NCCL_PROTO\n"
     "          value: LL\n"),
    (K8S, "Container: command and args", "        - --model-path\n",
     "        args:\n        - --model-path\n"),
    (K8S, "PodSpec", "      containers:\n", "      nodeSelector: {gpu: h200}\n      containers:\n"),
]  # fmt: skip

EDITED: list[tuple[str, str, str, str, str]] = [
    # Format, source of the rule, what is replaced, by what, and the edit that is named.
    (SH, "numactl(8)", EXEC, f"exec numactl --cpunodebind=0 {PROGRAM}",
     "`numactl --cpunodebind=0` stands before the interpreter"),
    (SH, "taskset(1)", EXEC, f"exec taskset -c 0-31 nice -n 5 {PROGRAM}",
     "`taskset -c 0-31 nice -n 5` stands before the interpreter"),
    (SH, "nohup(1)", EXEC, f"exec nohup {PROGRAM}", "`nohup` stands before the interpreter"),
    (SH, "XCU 2.6.3", EXPORT, "export NCCL_PROTO=$(cat proto)",
     "NCCL_PROTO is given by $(cat proto)"),
    (SH, "XCU 2.6.3", EXPORT, "export NCCL_PROTO=`cat proto`",
     "NCCL_PROTO is given by `cat proto`"),
    (SH, "XCU 2.6.2", EXPORT, "export NCCL_PROTO=$MINE", "NCCL_PROTO is given by $MINE"),
    (SH, "XCU 2.6.1", EXPORT, "export NCCL_PROTO=~/x", "NCCL_PROTO is given by ~/x"),
    (SH, "XCU 2.14 dot", EXPORT, f"{EXPORT}\n. /etc/sglang.env", "`. /etc/sglang.env` sets what"),
    (SH, "bash(1) source", EXPORT, f"{EXPORT}\nsource ./my.env", "`source ./my.env` sets what"),
    (SH, "ulimit(1)", EXPORT, f"{EXPORT}\nulimit -l unlimited",
     "`ulimit -l unlimited` runs before it"),
    (SH, "XCU 2.9.1", EXPORT, "NCCL_PROTO=LL", "NCCL_PROTO LL is gone"),
    (SH, "XCU 2.14 export", EXPORT, f"{EXPORT}\nexport NCCL_ALGO",
     "NCCL_ALGO is given by $NCCL_ALGO"),
    (SH, "XCU 2.7", EXEC, f"exec >log\n{EXEC}",
     "`> log` stands at its `exec`"),
    (SH, "XCU 2.14 exec", EXEC, PROGRAM, "its server is started without `exec`"),
    (SH, "python(1)", f"{EXEC} -m", f"{EXEC} -O -m", "-O is given to the interpreter"),
    (SH, "the interpreter", "default_python='/other venv/bin/python'", "default_python=/opt/py",
     "the interpreter is /opt/py and not /other venv/bin/python"),
    (SH, "argparse", "--tp-size 8", "--tp-size 8 --tp-size 4", "--tp-size is 4 and not 8"),
    (SH, "XCU 2.6.2", "--tp-size 8", '--tp-size "$TP"', "--tp-size is given by $TP"),
    ("env", "systemd.exec(5): EnvironmentFile", "NCCL_PROTO=LL", "NCCL_PROTO=$P",
     "NCCL_PROTO is given by $P"),
    ("env", "systemd.exec(5): EnvironmentFile", "NCCL_PROTO=LL", "P=LL\nNCCL_PROTO=$P",
     "NCCL_PROTO is given by $P"),
    (UNIT, "systemd.exec(5)", LINE, f"{LINE}EnvironmentFile=-/etc/x.env\n",
     "EnvironmentFile=-/etc/x.env"),
    (UNIT, "systemd.exec(5)", LINE, f"{LINE}PassEnvironment=NCCL_ALGO\n",
     "NCCL_ALGO is given by PassEnvironment=NCCL_ALGO"),
    (UNIT, "systemd.exec(5)", LINE, f"{LINE}UnsetEnvironment=NCCL_PROTO\n",
     "UnsetEnvironment=NCCL_PROTO"),
    (UNIT, "systemd.exec(5)", LINE, f"{LINE}CPUAffinity=0-31\nNUMAPolicy=bind\n",
     "CPUAffinity=0-31"),
    (UNIT, "systemd.exec(5)", LINE, f"{LINE}Nice=-5\n", "Nice=-5"),
    (UNIT, "systemd.resource-control(5)", LINE, f"{LINE}MemoryMax=64G\n", "MemoryMax=64G"),
    (UNIT, "systemd.exec(5)", "LimitMEMLOCK=infinity\n", "", "LimitMEMLOCK=infinity is gone"),
    (UNIT, "systemd.service(5)", LINE, f"{LINE}ExecStartPre=/bin/sh -c x\n",
     "ExecStartPre=/bin/sh -c x"),
    (UNIT, "systemd.service(5)", START, 'ExecStart=-"/other venv/bin/python"',
     "the prefix - stands before its command"),
    (UNIT, "numactl(8)", START, 'ExecStart=/usr/bin/numactl -N 0 "/other venv/bin/python"',
     "`/usr/bin/numactl -N 0` stands before the interpreter"),
    (UNIT, "systemd.service(5)", "--tp-size 8", "--tp-size ${TP}", "--tp-size is given by ${TP}"),
    (UNIT, "systemd.service(5)", f"{LINE}", f"{LINE}Environment=NCCL_ALGO=$HOME\n",
     "NCCL_ALGO $HOME was added"),
    (UNIT, "systemd.syntax(7)", LINE, 'Environment="NCCL_PROTO=L L" NCCL_ALGO=Ring\n',
     "NCCL_PROTO is L L and not LL"),
    (COMPOSE, "compose-spec 05-services: environment", ENV_LL, f"{ENV_LL}      NCCL_ALGO:\n",
     "NCCL_ALGO is given by the environment of Compose"),
    (COMPOSE, "compose-spec 05-services: environment", ENV_LL,
     "      - NCCL_PROTO=LL\n      - NCCL_ALGO\n",
     "NCCL_ALGO is given by the environment of Compose"),
    (COMPOSE, "compose-spec 05-services: env_file", "    ipc: host\n",
     "    ipc: host\n    env_file: [a.env, b.env]\n", "env_file ['a.env', 'b.env'] sets what"),
    (COMPOSE, "compose-spec 12-interpolation", ENV_LL, "      NCCL_PROTO: ${P:-LL}\n",
     "NCCL_PROTO is given by ${P:-LL}"),
    (COMPOSE, "compose-spec 12-interpolation", TP, "    - --tp-size\n    - $TP\n",
     "--tp-size is given by $TP"),
    (COMPOSE, "compose-spec 05-services: cpuset", "    ipc: host\n",
     "    ipc: host\n    cpuset: 0-31\n", "`cpuset` is 0-31"),
    (COMPOSE, "compose-spec 05-services: ipc", "    ipc: host\n", "", "`ipc` is gone"),
    (COMPOSE, "compose-spec 05-services: entrypoint", "    command:\n    - python3\n",
     "    entrypoint: [numactl, -N, '0', python3]\n    command:\n",
     "`numactl -N 0` stands before the interpreter"),
    (COMPOSE, "compose-spec deploy", COUNT, "            count: 4\n",
     "it asks for 4 GPUs and not 8"),
    (COMPOSE, "compose-spec 05-services", "services:\n", "services:\n  other: {image: x}\n",
     "the service other runs beside it"),
    (COMPOSE, "compose-spec 14-include", "services:\n", "include: [b.yml]\nservices:\n",
     "include ['b.yml'] adds what this file does not tell"),
    (COMPOSE, "compose-spec 05-services: environment", ENV_LL,
     f"{ENV_LL}      NCCL_NTHREADS: 256\n",
     "NCCL_NTHREADS 256 was added"),
    (K8S, "EnvVarSource", K8S_LL, f"{K8S_LL}        - name: NCCL_ALGO\n          valueFrom:\n"
     "            configMapKeyRef: {name: a, key: b}\n",
     "NCCL_ALGO is given by valueFrom {'configMapKeyRef': {'name': 'a', 'key': 'b'}}"),
    (K8S, "EnvFromSource", "        env:\n",
     "        envFrom:\n        - configMapRef: {name: all}\n        env:\n",
     "envFrom {'configMapRef': {'name': 'all'}} sets what"),
    (K8S, "EnvVar", K8S_LL, "        - name: NCCL_PROTO\n", "NCCL_PROTO is on and not LL"),
    (K8S, "Define dependent environment variables", K8S_LL,
     "        - name: P\n          value: L\n"
     "        - name: NCCL_PROTO\n          value: $(P)$(Q)\n",
     "NCCL_PROTO is L$(Q) and not LL"),
    (K8S, "Container: command", K8S_TP, "        - --tp-size\n        - $(NCCL_PROTO)\n",
     "--tp-size is LL and not 8"),
    (K8S, "ResourceRequirements", "nvidia.com/gpu: 8", "nvidia.com/gpu: 4",
     "it asks for 4 GPUs and not 8"),
    (K8S, "ResourceRequirements", "nvidia.com/gpu: 8\n", "nvidia.com/gpu: 8\n            cpu: 4\n",
     "its limits of cpu are 4"),
    (K8S, "PodSpec", "      containers:\n",
     "      initContainers:\n      - {name: a, image: b}\n      containers:\n",
     "`initContainers` of its pod is"),
    (K8S, "VolumeMount", "        - name: shared-memory\n          mountPath: /dev/shm\n", "",
     "nothing is mounted at /dev/shm"),
    (YAML, "sglang server_args_config_parser.py", "tp-size: 8", "tp-size:",
     "--tp-size is None and not 8"),
    (YAML, "sglang server_args_config_parser.py", "tp-size: 8", "tp-size: [4, 8]",
     "--tp-size is 4 8 and not 8"),
]  # fmt: skip

REFUSED: list[tuple[str, str, str, str, str]] = [
    # Format, source of the rule, what is replaced, by what, and why it cannot be read.
    (SH, "XCU 2.9.4", EXPORT, "if true; then export NCCL_PROTO=LL; fi", "`if`"),
    (SH, "XCU 2.9.3", EXPORT, f"test -f x && {EXPORT}", "`&&` joins commands"),
    (SH, "XCU 2.9.2", EXEC, f"yes | {EXEC}", "`|` joins commands"),
    (SH, "XCU 2.14 eval", EXPORT, f'eval "{EXPORT}"', "`eval"),
    (SH, "XCU 2.7.4", EXPORT, f"cat <<X\na\nX\n{EXPORT}", "here-document"),
    (SH, "XCU 2.2.2", EXPORT, "export NCCL_PROTO='LL", "quote is not closed"),
    (SH, "XCU 2.2", "\n", "\r\n", "as on Windows"),
    (SH, "ssh(1)", EXEC, f"exec ssh host {PROGRAM}", "what ssh starts is not known"),
    (SH, "sudo(8)", EXEC, f"exec sudo -E {PROGRAM}", "what sudo starts is not known"),
    (SH, "srun(1)", EXEC, f"exec srun --gpus 8 {PROGRAM}", "what srun starts is not known"),
    (SH, "torchrun", EXEC, "exec torchrun --nproc 1", "what torchrun starts is not known"),
    (UNIT, "sh(1)", START, "ExecStart=/bin/sh -c exec", "what /bin/sh starts is not known"),
    (SH, "docker-run(1)", EXEC, f"exec docker run image {PROGRAM}", "what docker starts"),
    (SH, "env(1)", EXEC, f"exec env -i {PROGRAM}", "takes variables away"),
    (SH, "XCU 2.14 exit", EXEC, f"exit 0\n{EXEC}", "`exit 0`"),
    (SH, "XCU 2.14 set", EXEC, f"set -- --tp-size 4\n{EXEC}", "`set -- --tp-size 4`"),
    ("env", "systemd.exec(5): EnvironmentFile", "NCCL_PROTO=LL", EXPORT, "is no variable"),
    ("env", "systemd.exec(5): EnvironmentFile", "NCCL_PROTO=LL", "NCCL_PROTO=LL # fast",
     "do not read NCCL_PROTO alike"),
    ("env", "systemd.exec(5): EnvironmentFile", "NCCL_PROTO=LL", "NCCL_PROTO=LL NCCL_ALGO=Ring",
     "do not read NCCL_PROTO alike"),
    ("env", "systemd.exec(5): EnvironmentFile", "NCCL_PROTO=LL", "NCCL_ALGO=Ring; NCCL_PROTO=LL",
     "alike: write one variable on a line"),
    ("env", "systemd, env-file.c", "NCCL_PROTO=LL", 'NCCL_PROTO=L"L"',
     "do not read NCCL_PROTO alike"),
    (UNIT, "systemd.service(5)", START, f"ExecStart=/bin/true\n{START}", "2 ExecStart"),
    (UNIT, "systemd.service(5)", "--tp-size 8", "--tp-size 8 ; /bin/true", "several commands"),
    (UNIT, "systemd.service(5)", START, "ExecStart=@/usr/bin/python3 other", "another name"),
    (UNIT, "systemd.unit(5)", LINE, "Environment=NCCL_PROTO=%H\n", "a specifier of systemd"),
    (UNIT, "systemd.syntax(7)", LINE, 'Environment="NCCL_PROTO=\\q"\n', "no escape"),
    (UNIT, "systemd.exec(5)", LINE, "Environment=NCCL_PROTO\n", "assigns nothing"),
    (COMPOSE, "compose-spec schema: command", "    - '8'\n", "    - 8\n", "no text: put it into"),
    (COMPOSE, "YAML 1.1 and 1.2", ENV_LL, "      NCCL_PROTO: yes\n", "not all read as one text"),
    (COMPOSE, "YAML 1.1 and 1.2", ENV_LL, "      NCCL_PROTO: 0x10\n", "not all read as one text"),
    (COMPOSE, "YAML 1.1 and 1.2", ENV_LL, "      NCCL_PROTO: 1e5\n", "not all read as one text"),
    (COMPOSE, "YAML 1.2 3.2.1.1", ENV_LL, f"{ENV_LL}{ENV_LL}", "stands twice"),
    (COMPOSE, "compose-spec 05-services: command", "    command:\n    - python3\n",
     "    command: sh -c 'python3 -m sglang.launch_server'\n    x:\n    - python3\n",
     "0 services of it start a server"),
    (K8S, "EnvVar", "value: LL", "value: 1", "not a text"),
    (K8S, "EnvVar", "value: LL", "value: on", "not a text"),
    (K8S, "Container: command", "        - '8'\n", "        - 8\n", "no text"),
    (K8S, "Container: command", "        command:\n        - python3\n        - -m\n",
     "        args:\n        - python3\n        - -m\n", "the image decides"),
    (K8S, "EnvVar", K8S_LL, f"{K8S_LL}          valueFrom: {{fieldRef: {{fieldPath: x}}}}\n",
     "is no variable"),
]  # fmt: skip


def _changed(form: str, old: str, new: str) -> str:
    text = EXPORTERS[form].write(recommended())
    assert old in text
    return text.replace(old, new) if old == "\n" else text.replace(old, new, 1)


def _edits(form: str, text: str) -> tuple[str, ...]:
    return edits(LAUNCH, REAL[0], 8, EXPORTERS[form].read(text))


@pytest.mark.parametrize(("form", "source", "old", "new"), SAME)
def test_what_reads_the_same_is_no_edit(form: str, source: str, old: str, new: str) -> None:
    found = _edits(form, _changed(form, old, new))
    expected = ("NCCL_PROTO LL is gone",) if not new else ()
    assert found == expected, source


@pytest.mark.parametrize(("form", "source", "old", "new", "named"), EDITED)
def test_what_changes_the_process_is_named(
    form: str, source: str, old: str, new: str, named: str
) -> None:
    found = _edits(form, _changed(form, old, new))
    assert any(edit.startswith(named) for edit in found), (source, found)


@pytest.mark.parametrize(("form", "source", "old", "new", "why"), REFUSED)
def test_what_cannot_be_known_is_refused(
    form: str, source: str, old: str, new: str, why: str
) -> None:
    with pytest.raises(UnreadableExportError) as refused:
        _edits(form, _changed(form, old, new))
    assert why in str(refused.value), source


PIECES = [
    "a", "'b c'", '"d $P"', "\\ ", "$P", "${P}", "${Q:-e f}", "${P:-g}", "${E:-h}", "${E-i}",
    '"\\$P"', "`echo j`", "$(echo 'k)')", "~", "x#y", '""', "''", '"l\\m"', '"\\\\"', "*", "$",
    '"$"', "${Q:-$P}", '"${Q:-"n"}"', "'\\'", "\\'", '"\'"', "é", "=", "%", "a=b", "\\\n", '"\n"',
]  # fmt: skip


def test_a_shell_makes_the_same_of_words_that_are_known() -> None:
    """What is told as known is what /bin/sh makes of it, for words put together at random."""
    rng = random.Random(7)
    variables = {"P": "p q", "E": ""}
    known = 0
    for _ in range(300):
        raw = "".join(rng.choices(PIECES, k=rng.randint(1, 5)))
        try:
            ((_, value),) = next(iter(statements(f"X={raw}"))).assignments
        except UnreadableExportError:
            continue
        found = value_of(value, variables, splits=False)
        if isinstance(found, str):
            known += 1
            assert found == _shell(raw), raw
    assert known > 100


def _shell(raw: str) -> str:
    script = f"P='p q'\nE=\nX={raw}\nprintf %s \"$X\"\n"
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout


@pytest.mark.parametrize("row", [row for row in SAME if row[0] == SH], ids=str)
def test_a_shell_starts_the_same_for_a_script_that_reads_the_same(
    row: tuple[str, str, str, str], tmp_path: Path
) -> None:
    """The script itself is run, with a program that shows what it was started with."""
    show = tmp_path / "python"
    show.write_text('#!/bin/sh\necho "$NCCL_PROTO"\nfor word in "$@"; do echo "$word"; done\n')
    show.chmod(0o755)
    text = _changed(SH, row[2], row[3]).replace(REAL[0], str(show))
    read = EXPORTERS[SH].read(text)
    done = subprocess.run(
        ["/bin/sh", "-c", text], capture_output=True, text=True, check=True, timeout=30,
        env={"PATH": "/usr/bin:/bin", "MY_PORT": "1"},
    )  # fmt: skip
    proto, *words = done.stdout.split("\n")[:-1]
    assert read.launch.env.get("NCCL_PROTO", "") == proto
    started = " ".join(words[2 : words.index("--host")]).replace("=", " ")
    assert " ".join(read.launch.options) == started
