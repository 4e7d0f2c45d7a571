"""``navi demo-script``: what the demo model obeys."""

import click

from navi.adapters.llm.demo_script import GRAMMAR


@click.command()
def demo_script() -> None:
    """Print what the demo model obeys: the model that answers where there is no other."""
    click.echo(GRAMMAR, nl=False)
