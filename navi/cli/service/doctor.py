"""``navi doctor``: check everything navi needs, and report what is wrong."""

import asyncio
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import psutil
from msgspec import Struct

from navi import __version__, failpoints
from navi.adapters.embedded.run_record import RunRecord, read_run
from navi.adapters.llm.servers import ASSUMED
from navi.cli.service.doctor_servers import server_findings
from navi.cli.service.doctor_tools import tool_and_profile_findings
from navi.cli.service.finding import Finding, State
from navi.cli.service.status import times
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.cli.shared.model import model_of
from navi.domain.vocabulary.errors import BadInput
from navi.settings import Settings

IN_MEMORY = frozenset({"tmpfs", "ramfs"})
LITTLE_BYTES, TOO_LITTLE_BYTES = 2 * 2**30, 200 * 2**20  # free disk: a warning, a failure

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


class Report(Struct, frozen=True, kw_only=True):
    """All findings; ``ok`` if nothing fails."""

    ok: bool
    findings: tuple[Finding, ...]


class FailpointEntry(Struct, frozen=True, kw_only=True):
    """A failpoint that ``NAVI_FAILPOINTS`` may name."""

    name: str
    place: str


class FailpointList(Struct, frozen=True, kw_only=True):
    """All of them."""

    failpoints: tuple[FailpointEntry, ...]


@click.command()
@click.option(
    "--failpoints", "list_failpoints", is_flag=True, help="List what NAVI_FAILPOINTS takes."
)
@data_dir_option
@json_option
def doctor(list_failpoints: bool, data_dir: str | None, as_json: bool) -> None:
    """Look for what is wrong or missing; exit status 1 where something fails.

    Embedded servers that do not run are started for the time of the look.
    """
    if list_failpoints:
        _print_failpoints(as_json=as_json)
        return
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="error")
    run(settings, _doctor(settings, as_json=as_json))


def _print_failpoints(*, as_json: bool) -> None:
    entries = tuple(FailpointEntry(name=n, place=place) for n, place in failpoints.NAMES.items())
    if as_json:
        print_json(FailpointList(failpoints=entries))
        return
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        click.echo(f"{entry.name:<{width}}  {entry.place}")


async def _doctor(settings: Settings, *, as_json: bool) -> int:
    report = await examine(settings)
    if as_json:
        print_json(report)
    else:
        for finding in report.findings:
            mark = click.style(f"{finding.state:<4}", fg=COLOURS[finding.state])
            click.echo(f"{mark}  {finding.name:<15} {finding.text}")
    return HOLDS if report.ok else DOES_NOT_HOLD


async def examine(settings: Settings) -> Report:
    """Run all checks."""
    findings = [
        _python(),
        *await asyncio.to_thread(_data_directory, settings.data_dir),
        *_processes(await asyncio.to_thread(read_run, settings.data_dir)),
    ]
    parts = await asyncio.gather(
        server_findings(settings), _model(settings), tool_and_profile_findings(settings)
    )
    findings += [finding for part in parts for finding in part]
    return Report(ok=all(f.state != "fail" for f in findings), findings=tuple(findings))


def _python() -> Finding:
    text = f"navi {__version__} on Python {platform.python_version()}, {sys.platform}"
    return Finding(name="navi", state="ok", text=text)


def _data_directory(data_dir: Path) -> list[Finding]:
    there = data_dir
    while not there.exists():
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there):
            writable = Finding(name="data directory", state="ok", text=str(data_dir))
    except OSError as error:
        text = f"{there} cannot be written to: {error.strerror}"
        writable = Finding(name="data directory", state="fail", text=text)
    if writable.state == "ok" and (kind := in_memory(there)) is not None:
        text = f"{data_dir} is on {kind}: in memory, and gone when the machine starts again"
        writable = Finding(name="data directory", state="warn", text=text)
    free = shutil.disk_usage(there).free
    state: State = "fail" if free < TOO_LITTLE_BYTES else "warn" if free < LITTLE_BYTES else "ok"
    return [writable, Finding(name="disk", state=state, text=f"{free / 2**30:.1f} GiB free")]


def in_memory(path: Path) -> str | None:
    """The kind of the file system that a path is on, where that is one in memory."""
    path = path.resolve()
    places = [
        (len(Path(each.mountpoint).parts), each.fstype)
        for each in psutil.disk_partitions(all=True)
        if path.is_relative_to(each.mountpoint)
    ]
    kind = max(places, default=(0, ""), key=lambda place: place[0])[1]
    return kind if kind in IN_MEMORY else None


def _processes(run: RunRecord | None) -> list[Finding]:
    """On the processes of a navi that runs and has several."""
    if run is None or not run.processes:
        return []
    there = [one for one in run.processes if one.pid is not None]
    restarts = sum(one.restarts for one in run.processes)
    text = f"{len(there)} of {len(run.processes)}"
    if restarts:
        text += f"; started again {times(restarts)}, the log says why (process_ended)"
    whole = len(there) == len(run.processes) and not restarts
    return [Finding(name="processes", state="ok" if whole else "warn", text=text)]


async def _model(settings: Settings) -> Sequence[Finding]:
    try:
        model, reason = await model_of(settings)
    except BadInput as error:
        return [Finding(name="model", state="fail", text=str(error))]
    if model.name is None:
        return [Finding(name="model", state="fail", text=f"{model.words} ({reason})")]
    state: State = "warn" if model.backend == "demo" else "ok"
    findings = [Finding(name="model", state=state, text=f"{model.words} ({reason})")]
    if model.known is None:
        return findings
    window, slots = f"{model.window_words}", f"{model.slots_words}"
    assumed = model.known.window_from == ASSUMED
    if assumed:
        window += "; NAVI_CONTEXT_WINDOW sets it"
    if model.known.slots_from == ASSUMED:
        slots += "; NAVI_MODEL_SLOTS sets it"
    return [
        *findings,
        Finding(name="context window", state="warn" if assumed else "ok", text=window),
        Finding(name="model slots", state="ok", text=slots),
    ]
