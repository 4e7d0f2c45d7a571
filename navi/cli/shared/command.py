"""What all commands share: settings, exit status, output."""

import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from navi.adapters.embedded.errors import EmbeddedServerError
from navi.adapters.logs import configure_logs
from navi.cli.shared.printable import as_utf8, output_width, takes_colour
from navi.domain.log.secrets import Secrets
from navi.domain.vocabulary.errors import BadInput, NaviError
from navi.settings import Settings, read_settings

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})  # of a disk that is written to
HOLDS, DOES_NOT_HOLD, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130  # exit statuses

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class CommandFailed(click.ClickException):
    """Ends the command with a line on standard error and exit status 1."""

    exit_code = DOES_NOT_HOLD

    def show(self, file: Any = None) -> None:
        """Write the line."""
        click.echo(f"navi: {self.format_message()}", file=file, err=file is None)


class WrongUsage(CommandFailed):
    """Ends the command for a wrong option or setting, with exit status 2."""

    exit_code = WRONG_USAGE


def environment() -> Mapping[str, str]:
    """The environment of the process; nothing else reads it."""
    return os.environ


def environment_with(**options: object) -> Mapping[str, str]:
    """The environment with options in the place of what it says, as ``settings_of`` has it."""
    given = {f"NAVI_{name.upper()}": str(v) for name, v in options.items() if v is not None}
    return {**environment(), **given}


def settings_of(**options: object) -> Settings:
    """The settings of the environment, with the options that were given in their place.

    Args:
        options: ``data_dir`` stands for ``NAVI_DATA_DIR`` and so on; None where it was not given.

    Raises:
        WrongUsage: a value is not understood.
    """
    try:
        settings = read_settings(environment_with(**options))
    except BadInput as error:
        raise WrongUsage(str(error)) from error
    if settings.data_dir.exists() and not settings.data_dir.is_dir():
        raise WrongUsage(f"NAVI_DATA_DIR: {settings.data_dir} is not a directory")
    return settings


class _Words(click.ParamType[str]):
    """Text for navi, in whatever encoding the terminal was; no path: those stay the bytes that they are."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, as UTF-8 can have it."""
        del param, ctx
        return as_utf8(value)


words_type = _Words()
data_dir_option = click.option(
    "--data-dir", metavar="DIR", help="Where navi keeps its data (NAVI_DATA_DIR)."
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Machine-readable, on standard output alone."
)


def log_to_stderr(settings: Settings, *, level: str | None = None) -> None:
    """Send logs to standard error; ``level`` in place of the one that is set."""
    configure_logs(
        level=level or settings.log_level,
        colours=sys.stderr.isatty() and takes_colour(environment()),
        secrets=Secrets(settings.secrets),
    )


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of uvloop, which is about twice as fast, where there is one for the platform."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run(
    settings: Settings,
    work: Coroutine[Any, Any, int],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> NoReturn:
    """Run a command to its end and leave with its exit status.

    Raises:
        CommandFailed: something went wrong that a sentence can tell.
    """
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            status = runner.run(work)
    except BadInput as error:
        raise WrongUsage(str(error)) from error
    except (NaviError, EmbeddedServerError) as error:
        raise CommandFailed(str(error)) from error
    except BrokenPipeError:
        leave_quietly()
    except OSError as error:
        if error.errno in NO_ROOM:
            raise cannot_write(error) from error
        if error.filename is None and not isinstance(error, PermissionError | NotADirectoryError):
            raise  # not about a place that somebody chose
        place = error.filename or settings.data_dir
        raise WrongUsage(f"{place} cannot be used: {error.strerror}") from error
    except KeyboardInterrupt:
        status = INTERRUPTED
    raise click.exceptions.Exit(status)


def end_as_at_ctrl_c() -> None:
    """Let SIGTERM end the command that runs as Ctrl-C does, with what it has begun put away."""
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM, signal.raise_signal, signal.SIGINT
    )


def leave_quietly() -> NoReturn:
    """Exit with status 0 where the reader has closed standard output, as ``head`` does."""
    drop_output()
    raise click.exceptions.Exit(HOLDS)


def cannot_write(error: OSError) -> CommandFailed:
    """The end of a command that cannot write, as on a full disk: its standard output, where no file is named."""
    if error.filename is not None:
        return CommandFailed(f"{error.filename} cannot be written: {error.strerror}")
    drop_output()
    return CommandFailed(f"standard output cannot be written: {error.strerror}")


def drop_output() -> None:
    """Discard buffered output, which Python would otherwise report at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def width_of_output() -> int | None:
    """How many characters a line may have; None where nothing is cut."""
    return output_width(environment(), watched=sys.stdout.isatty())


def print_json(value: object) -> None:
    """One value as one line of JSON on standard output."""
    print_line(msgspec.json.encode(value))


def print_line(data: bytes) -> None:
    """Bytes as they are, and a line break; at once, since a reader may be waiting."""
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()
