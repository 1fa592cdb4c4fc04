"""The way to a host: the inventory first, then ~/.ssh/config, and nothing ignored in silence."""

from pathlib import Path

import pytest

from infra.inventory import HostEntry, Inventory
from infra.ssh.config import Hop, route
from sweeps.problems import BadInputError

CONFIG = """
Host rack
  HostName 10.0.0.5
  User ops
  Port 2222
  IdentityFile ~/.ssh/rack_%h
  IdentitiesOnly yes
  ProxyJump root@edge:2022,middle
Host middle
  HostName 10.0.0.2
Host odd
  ProxyCommand nc %h %p
  ControlMaster auto
Host bound
  BindAddress 1.2.3.4
"""


def way(tmp_path: Path, *hosts: HostEntry, config: str = CONFIG) -> tuple[Hop, ...]:
    path = tmp_path / "config"
    path.write_text(config)
    return route(hosts[0], Inventory("hosts.toml", hosts), path)


def test_the_users_configuration_is_respected(tmp_path: Path) -> None:
    edge, middle, last = way(tmp_path, HostEntry("a", "rack"))
    assert (edge.user, edge.address, edge.port) == ("root", "edge", 2022)
    assert middle.address == "10.0.0.2"
    assert (last.user, last.address, last.port) == ("ops", "10.0.0.5", 2222)
    assert last.keys == (Path("~/.ssh/rack_10.0.0.5").expanduser(),)
    assert not last.agent
    assert last.known_as == "[10.0.0.5]:2222"


def test_the_inventory_comes_first(tmp_path: Path) -> None:
    host = HostEntry("a", "rack", user="me", port=22, key="/k", jump="b", known_hosts="/known")
    before, last = way(tmp_path, host, HostEntry("b", "10.9.9.9", user="x", gpus=0))
    assert (before.address, before.user) == ("10.9.9.9", "x")
    assert (last.user, last.port, last.keys, last.agent) == ("me", 22, (Path("/k"),), False)
    assert (last.known_hosts, last.known_as) == ((Path("/known"),), "10.0.0.5")


@pytest.mark.parametrize(
    ("alias", "option", "mend"),
    [("odd", "proxycommand", "ProxyJump"), ("bound", "bindaddress", "Remove it")],
)
def test_an_option_that_is_not_supported_is_named(
    tmp_path: Path, alias: str, option: str, mend: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        way(tmp_path, HostEntry("a", alias))
    (problem,) = caught.value.problems
    assert problem.field == "hosts.a.address"
    assert problem.value.startswith(option)
    assert mend in problem.mend


def test_a_jump_may_be_switched_off(tmp_path: Path) -> None:
    assert len(way(tmp_path, HostEntry("a", "rack", jump="none"))) == 1


def test_a_circle_is_refused(tmp_path: Path) -> None:
    config = "Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n"
    with pytest.raises(BadInputError, match="circle"):
        way(tmp_path, HostEntry("a", "a"), config=config)


def test_included_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "more").write_text("Host rack\n  Port 77\n")
    (last,) = way(
        tmp_path, HostEntry("a", "rack"), config=f"Include {tmp_path}/mo*\nHost *\n  User u\n"
    )
    assert (last.port, last.user) == (77, "u")


def test_a_broken_configuration_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="Mend it there"):
        way(tmp_path, HostEntry("a", "rack"), config="Host rack\n  Match !\n??\n")
