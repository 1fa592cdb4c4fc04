"""hosts.toml: what it may say, and that all its problems are told at once."""

from pathlib import Path

import pytest

from infra import secret_refs
from infra.engines import ENGINES
from infra.inventory import Inventory, Limits, load_inventory
from sweeps.hosts import EngineName
from sweeps.launch import Deadlines
from sweeps.problems import BadInputError

FULL = """
[defaults]
user = "ops"
limits = { connect_s = 5 }
env = { NCCL_P2P_LEVEL = "SYS", A = "1" }

[hosts.rack-1]
address = "10.0.0.11"
port = 2222
key = "~/.ssh/rack"
passphrase = "env:RACK_PASSPHRASE"
jump = "bastion"
python = "/opt/ours/bin/python"
sglang_python = "/opt/sglang/bin/python"
engine = "sglang"
gpus = 4
models = ["/models/a", "/models/b"]
labels = ["rack-a"]
equals = "rtx"
folder = "/srv/ours"
env = { A = "2" }
secrets = { HF_TOKEN = "file:~/.hf" }
[hosts.rack-1.limits]
keepalive_s = 5

[hosts.bastion]
address = "bastion.example"
gpus = 0
"""


def read(tmp_path: Path, text: str) -> Inventory:
    path = tmp_path / "hosts.toml"
    path.write_text(text)
    return load_inventory(path)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(BadInputError) as caught:
        read(tmp_path, text)
    assert caught.value.source == str(tmp_path / "hosts.toml")
    return [str(problem) for problem in caught.value.problems]


def test_a_full_file_is_read(tmp_path: Path) -> None:
    inventory = read(tmp_path, FULL)
    rack, bastion = inventory.hosts
    assert rack.user == bastion.user == "ops"
    assert rack.limits == Limits(connect_s=5, keepalive_s=5)
    assert dict(rack.env) == {"NCCL_P2P_LEVEL": "SYS", "A": "2"}
    assert rack.models == ("/models/a", "/models/b")
    assert not bastion.serves
    assert inventory.chosen([]) == [rack]
    assert inventory.jumps(rack) == [bastion]
    spec = rack.spec()
    assert (spec.name, spec.engine, spec.gpus) == ("rack-1", EngineName.SGLANG, 4)
    assert spec.python == "/opt/sglang/bin/python"


def test_all_problems_are_told_at_once_with_how_to_mend_them(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        [hots]
        [defaults]
        gpus = -1
        [hosts.a]
        adress = "x"
        prot = 22
        [hosts.b]
        address = "x"
        gpus = 8
        port = 70000
        truth = "Z"
        [hosts.c]
        address = "x"
        gpus = 8
        python = "python3"
        folder = "~/x"
        limits = { keepalive_s = 10, lost_after_s = 5 }
        [hosts."d e"]
        address = 7
        gpus = 8
        """,
    )
    for start, end in [
        ("hots = ", "Did you mean `hosts`?"),
        ("defaults.gpus = -1: ", "Correct the value."),
        ("hosts.a.adress = 'x': no such field", "Did you mean `address`?"),
        ("hosts.a.address = missing", "is reached."),
        ("hosts.a.prot = 22", "Did you mean `port`?"),
        ("hosts.b.port = 70000", "Correct the value."),
        ("hosts.c.python = python3", "absolute path of the interpreter."),
        ("hosts.c.folder = ~/x", "below the home."),
        ("hosts.c.limits = 5", "times `keepalive_s`."),
        ("hosts.d e = d e", "letter or digit first."),
        ("hosts.d e.address = 7", "Correct the value."),
    ]:
        assert any(line.startswith(start) and line.endswith(end) for line in found), (start, found)


@pytest.mark.parametrize(
    "line",
    [
        'password = "hunter2-hunter2"',
        'passphrase = "hunter2-hunter2"',
        'token = "hunter2-hunter2"',
        'env = { HF_TOKEN = "hunter2-hunter2" }',
        'secrets = { HF_TOKEN = "hunter2-hunter2" }',
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path: Path, line: str) -> None:
    found = problems(tmp_path, f'[hosts.a]\naddress = "x"\nkey = "k"\n{line}\n')
    assert len(found) == 1
    assert "secret" in found[0]
    assert "env:NAME" in found[0]
    assert "hunter2" not in found[0]


@pytest.mark.parametrize(
    ("text", "word"),
    [("", "names no host"), ("hosts = 3", "no table"), ("[hosts", "no TOML"), ("a = 1", "a = 1")],
)
def test_a_file_without_hosts_is_told(tmp_path: Path, text: str, word: str) -> None:
    assert any(word in line for line in problems(tmp_path, text))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such file"):
        load_inventory(tmp_path / "hosts.toml")


def test_an_unknown_name_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="Did you mean `rack-1`"):
        read(tmp_path, FULL).host("rack1")


def test_a_way_in_a_circle_is_refused(tmp_path: Path) -> None:
    text = '[hosts.a]\naddress="x"\njump="b"\n[hosts.b]\naddress="y"\njump="a"\n'
    assert any("a → b → a" in line for line in problems(tmp_path, text))


def test_secrets_are_resolved_here(tmp_path: Path) -> None:
    private = tmp_path / "secret"
    private.write_text("abc\n")
    private.chmod(0o600)
    assert secret_refs.resolve(f"file:{private}") == "abc"
    assert secret_refs.resolve("env:X", {"X": "y"}) == "y"
    private.chmod(0o644)
    with pytest.raises(secret_refs.SecretError, match="chmod 600"):
        secret_refs.resolve(f"file:{private}")
    for reference in ("env:NOT_SET", "file:/not/there", "literal"):
        with pytest.raises(secret_refs.SecretError):
            secret_refs.resolve(reference, {})


def test_a_server_gets_the_devices_of_the_entry_and_not_of_who_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ray hides devices from a trial that asks it for none.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    spec = read(tmp_path, FULL).host("rack-1").spec()
    plan = ENGINES[spec.engine].plan({}, spec, 1, Deadlines())
    assert dict(plan.env)["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    assert dict(plan.env)["NCCL_P2P_LEVEL"] == "SYS"
    assert "CUDA_VISIBLE_DEVICES" not in plan.inherit
    assert plan.argv[0] == "/opt/sglang/bin/python"
