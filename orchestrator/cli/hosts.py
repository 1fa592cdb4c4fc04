"""Commands about other machines: trust them, look at them, put ours there."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.choices import WheelSource
from orchestrator.cli.options import AsJson, bad_input_exits, print_json
from orchestrator.exit_codes import NOT_READY

if TYPE_CHECKING:
    from infra.inventory import HostEntry
    from infra.remote import Remote

hosts = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Other machines, as hosts.toml names them."
)

Inventory = Annotated[Path, typer.Option(help="The file that names the hosts.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A host of the inventory.")]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Some of the hosts; all if none.")
]


DEFAULT_INVENTORY = Path("hosts.toml")


@contextmanager
def remote_exits() -> Iterator[None]:
    """Exit with 2 on bad input, and with 4 where a host cannot be used."""
    from infra.remote import RemoteError

    with bad_input_exits():
        try:
            yield
        except RemoteError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(NOT_READY) from error


@hosts.command()
def check(
    names: Names = None, inventory: Inventory = DEFAULT_INVENTORY, as_json: AsJson = False
) -> None:
    """Look at hosts and say what a sweep would meet there. Only probes are started.

    Exits with 0 if all are ready, 4 if one is not.
    """
    with remote_exits():
        from infra.inventory import load_inventory
        from orchestrator.hosts.checking import report
        from orchestrator.hosts.reaching import look_at

        listed = load_inventory(inventory)
        made = report(look_at(listed.chosen(names or []), listed))
    if as_json:
        print_json(made.as_data())
    else:
        from orchestrator.hosts.page import print_hosts

        print_hosts(made)
    raise typer.Exit(made.exit_code)


@hosts.command()
def trust(
    name: Name,
    inventory: Inventory = DEFAULT_INVENTORY,
    expect: Annotated[
        str | None,
        typer.Option(
            "--yes", metavar="FINGERPRINT", help="Ask nobody: add the key if it has this."
        ),
    ] = None,
) -> None:
    """Show the key of a host, and add it to the known ones after a confirmation."""
    with remote_exits():
        from orchestrator.hosts.trusting import trust_host

        typer.echo(trust_host(name, inventory, expect, typer.confirm))


@hosts.command()
def prepare(
    name: Name,
    inventory: Inventory = DEFAULT_INVENTORY,
    wheels: Annotated[
        WheelSource, typer.Option(help="From the host's registry, or fetched here and sent.")
    ] = WheelSource.AUTO,
) -> None:
    """Put our locked environment on a host, unless this version is there already."""
    with remote_exits():
        from orchestrator.hosts.preparing import prepare

        with _reached(name, inventory) as (remote, host):
            made = prepare(remote, host, typer.echo, source=wheels)
    word = "was there already" if made.was_there else "is there now"
    typer.echo(f"{name}: version {made.version} {word}, in {made.interpreter}")


@hosts.command()
def remove(
    name: Name,
    inventory: Inventory = DEFAULT_INVENTORY,
    state: Annotated[bool, typer.Option(help="Also what sweeps wrote there.")] = False,
) -> None:
    """Remove what `hosts prepare` put on a host."""
    with remote_exits():
        from orchestrator.hosts.preparing import remove

        with _reached(name, inventory) as (remote, host):
            was_there = remove(remote, host, with_state=state)
    typer.echo(f"{name}: ours is removed" if was_there else f"{name}: there is nothing of ours")


@contextmanager
def _reached(name: str, inventory: Path) -> Iterator[tuple["Remote", "HostEntry"]]:
    from infra.inventory import load_inventory
    from infra.ssh.remote import SshRemote

    listed = load_inventory(inventory)
    host = listed.host(name)
    with closing(SshRemote.to(host, listed)) as remote:
        yield remote, host
