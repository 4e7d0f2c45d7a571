"""``navi keys``: who signs here, and whose signatures are trusted."""

import asyncio

import click
from msgspec import Struct

from navi.adapters.signing import KnownKey, known_keys, open_signer
from navi.cli.shared.command import (
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.settings import Settings


class Keys(Struct, frozen=True, kw_only=True):
    """Who signs here, and whose signatures are trusted beside."""

    public_key: str
    known: tuple[KnownKey, ...]


@click.command()
@data_dir_option
@json_option
def keys(data_dir: str | None, as_json: bool) -> None:
    """Print the public key that signs here, and those that are trusted beside it.

    To trust another signer, put its public key, in hex, into keys/known/NAME.pub of the data directory.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _print_keys(settings, as_json=as_json))


async def _print_keys(settings: Settings, *, as_json: bool) -> int:
    settings.require_here()
    found = await asyncio.to_thread(_keys, settings)
    if as_json:
        print_json(found)
        return HOLDS
    click.echo(f"{found.public_key}  this navi")
    for known in found.known:
        click.echo(f"{known.public_key}  {known.name}")
    return HOLDS


def _keys(settings: Settings) -> Keys:
    signer = open_signer(settings.keys_dir)
    return Keys(public_key=signer.public_key, known=known_keys(settings.keys_dir))


async def warn_of_stranger(settings: Settings, public_key: str) -> bool:
    """Warn on standard error if the signer is neither this navi nor trusted; whether that is so."""
    keys = await asyncio.to_thread(_keys, settings)
    if public_key in (keys.public_key, *(known.public_key for known in keys.known)):
        return False
    click.echo(
        f"navi: warning: the signer is not known: {public_key}\n"
        f"  If you trust it: echo {public_key} > {settings.keys_dir / 'known' / 'NAME.pub'}",
        err=True,
    )
    return True
