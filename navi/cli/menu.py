"""The command group: order and sections of commands, and the module of each."""

import keyword
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from msgspec import Struct

from navi import __version__
from navi.cli.shared.command import (
    HOLDS,
    NO_ROOM,
    cannot_write,
    drop_output,
    environment,
    leave_quietly,
)
from navi.cli.shared.printable import takes_colour

EXAMPLES = """\b
Examples:
  navi serve                            start navi, with its own Postgres and NATS
  navi chat "What can you do?"          ask once, in the terminal
  navi events SESSION --follow          watch a session's log grow
  navi verify                           check the hash chain of every session

Settings come from the environment (NAVI_PORT, NAVI_DATA_DIR, DATABASE_URL, OLLAMA_HOST, ...); an
option of the same name takes precedence. `navi COMMAND --help` tells more about a command.

Exit status: 0 success; 1 looked, and it does not hold; 2 wrong usage.
"""


class MenuEntry(Struct, frozen=True):
    """A command, the module it is in, and its line in the menu."""

    name: str
    module: str
    line: str


SECTIONS: Mapping[str, tuple[MenuEntry, ...]] = {
    "Start": (
        MenuEntry("serve", "service.serve", "Start navi: chat, Postgres and NATS, all in one."),
        MenuEntry("chat", "chat.chat", "Talk to a running navi in the terminal."),
        MenuEntry("approvals", "chat.approvals", "Decide on tool calls that wait for you."),
        MenuEntry("fork", "chat.fork", "Go on from any event of a session, in a new one."),
        MenuEntry("users", "accounts.users", "Look after who may sign in."),
        MenuEntry("tokens", "accounts.tokens", "Make and revoke what programs sign in with."),
        MenuEntry("status", "service.status", "Say where navi runs, and with which model."),
        MenuEntry("doctor", "service.doctor", "Look for what is wrong or missing."),
        MenuEntry(
            "sandbox", "service.sandbox", "Attack the sandbox for code, and print each denial."
        ),
    ),
    "Read the log": (
        MenuEntry("sessions", "reading.sessions", "List the sessions."),
        MenuEntry("events", "reading.events", "Print the events of a session, and follow them."),
        MenuEntry("show", "reading.show", "Show a turn at a glance: calls, tools, waits."),
        MenuEntry("replay", "reading.replay", "Fold a session's log into what was said."),
        MenuEntry("diff", "reading.diff", "Show what changed between two moments."),
        MenuEntry(
            "rerun", "rerun.rerun", "Run a session again offline, and compare event by event."
        ),
        MenuEntry("request", "reading.request", "Print what a model server was sent, to the byte."),
        MenuEntry("trace", "reading.trace", "Print a session's turns as a trace."),
        MenuEntry("audit", "audit.audit", "Print who did what."),
        MenuEntry("verify", "audit.verify", "Check that nobody changed history."),
        MenuEntry("usage", "reading.usage", "Draw what model calls came to, in tokens and money."),
        MenuEntry("export", "audit.export", "Write sessions as signed JSON Lines."),
        MenuEntry("import", "audit.import_", "Take in the sessions of an export."),
        MenuEntry("keys", "audit.keys", "Print who signs here, and who is trusted."),
    ),
    "Upkeep": (
        MenuEntry("memories", "upkeep.memories", "Look after what navi remembers about you."),
        MenuEntry("projections", "upkeep.projections", "Look after the read models."),
        MenuEntry("publish", "upkeep.publish", "Fill a NATS stream again from the log."),
        MenuEntry("erase", "upkeep.erase", "Take the words out of a session, for good."),
        MenuEntry(
            "backup", "upkeep.backup", "Write all that counts into a folder, while navi runs."
        ),
        MenuEntry("restore", "upkeep.restore", "Put a backup into an empty navi, and check it."),
        MenuEntry("restored", "upkeep.restored", "Acknowledge that an older state was put back."),
        MenuEntry(
            "prune", "upkeep.prune", "Take away text that only showed replies in the making."
        ),
        MenuEntry("migrate", "upkeep.migrate", "Bring the database up to date."),
    ),
    "Learn": (MenuEntry("demo-script", "upkeep.demo_script", "Print what the demo model obeys."),),
}

COMMANDS: Mapping[str, MenuEntry] = {
    entry.name: entry for entries in SECTIONS.values() for entry in entries
}


class Menu(click.Group):
    """A click group that imports a command's module when it is called."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line; output that cannot be written ends it with a sentence."""
        try:
            try:
                return super().main(*args, **options)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            drop_output()
            sys.exit(HOLDS)
        except OSError as error:
            if error.errno not in NO_ROOM or error.filename is not None:
                raise
            failed = cannot_write(error)
            failed.show()
            sys.exit(failed.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader of its output that has gone is no failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            leave_quietly()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the menu."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        del ctx
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = import_module(f"navi.cli.{entry.module}")
        name = cmd_name.replace("-", "_")
        command = getattr(module, f"{name}_" if keyword.iskeyword(name) else name)
        assert isinstance(command, click.Command)  # noqa: S101 - the table above says so
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, without loading them."""
        del ctx
        width = max(map(len, COMMANDS))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(entry.name.ljust(width), entry.line) for entry in entries])


@click.group(
    cls=Menu,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="navi", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """navi: an agent service whose every event is kept, published and replayed."""
    if not takes_colour(environment()):
        context.color = False
