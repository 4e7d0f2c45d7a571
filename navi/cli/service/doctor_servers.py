"""What ``navi doctor`` looks at in the servers: Postgres, and what navi has in it; NATS."""

import asyncio

from navi.adapters.embedded.errors import EmbeddedServerError
from navi.adapters.embedded.run_record import read_run
from navi.adapters.nats.examine import examine as examine_nats
from navi.adapters.postgres.connect import OLDEST_SERVER, open_pool
from navi.adapters.postgres.examine import DIRECTLY, Examined, reason_of
from navi.adapters.postgres.examine import examine as examine_postgres
from navi.adapters.postgres.log.newer_sessions import newer_sessions
from navi.adapters.postgres.migrate import pending
from navi.adapters.postgres.read_models.read_models import PostgresReadModels
from navi.adapters.postgres.reader_role import REMEDY, may_open_readers
from navi.adapters.postgres.rights import examine_rights
from navi.bootstrap.store import Attached, attached_servers
from navi.cli.service.doctor_log import log_findings
from navi.cli.service.finding import Finding, State
from navi.domain.vocabulary.errors import BusUnavailable, LogUnavailable, StoreRefused
from navi.projections.registry import PROJECTIONS
from navi.settings import Settings

OLDEST_NATS = (2, 10)
MOST_NAMED = 5  # sessions in a finding


async def server_findings(settings: Settings) -> list[Finding]:
    """What is wrong with Postgres, NATS and the log on them."""
    try:
        async with attached_servers(settings, nats=True) as servers:
            parts = await asyncio.gather(_postgres(settings, servers), _nats(settings, servers))
            found = [finding for part in parts for finding in part]
            if not any(one.name == "migrations" and one.state == "ok" for one in found):
                return found  # there is no log yet that this version reads
            return [*found, *await log_findings(settings, servers)]
    except (EmbeddedServerError, OSError) as error:
        return [Finding(name="servers", state="fail", text=str(error))]


async def _postgres(settings: Settings, servers: Attached) -> list[Finding]:
    try:
        found = await examine_postgres(servers.database_url)
    except LogUnavailable as error:
        return [Finding(name="Postgres", state="fail", text=reason_of(error).text)]
    run = await asyncio.to_thread(read_run, settings.data_dir)
    where = place_of("DATABASE_URL", settings.database_url, given=run and run.database_given)
    old = found.major < OLDEST_SERVER
    findings = [
        Finding(
            name="Postgres",
            state="fail" if old else "ok",
            text=f"{found.version} ({where})"
            + (f": {OLDEST_SERVER} or newer is needed" if old else ""),
        ),
        Finding(
            name="pgvector",
            state="ok" if found.vector is not None else "fail",
            text=found.vector or "is not installed on that server",
        ),
        await _rights(servers),
    ]
    if found.careless:
        state: State = "fail" if "fsync" in found.careless else "warn"
        text = f"{', '.join(found.careless)} off: a power cut loses what was committed"
    else:
        state, text = "ok", "what is committed is on disk"
    findings.append(Finding(name="durability", state=state, text=text))
    migrations = await _migrations(servers)
    if migrations.state != "ok":
        return [*findings, migrations]
    return [
        *findings,
        migrations,
        await _row_security(servers, found),
        await _read_models(servers),
        await _sessions(servers),
    ]


def place_of(setting: str, value: str | None, *, given: bool | None) -> str:
    """Where a server is from: a setting of this command's, or of the navi's that runs, or navi itself.

    Args:
        given: whether the navi that runs was given it; None where none runs.
    """
    if value is not None:
        return setting
    return "given to the navi that runs" if given else "embedded"


async def _rights(servers: Attached) -> Finding:
    try:
        rights = await examine_rights(servers.database_url)
    except LogUnavailable as error:
        return Finding(name="rights", state="fail", text=str(error))
    if rights.missing is not None:
        return Finding(name="rights", state="fail", text=rights.missing)
    return Finding(name="rights", state="ok", text=f"{rights.name} may make what navi needs")


async def _migrations(servers: Attached) -> Finding:
    try:
        missing = await pending(servers.database_url)
    except (StoreRefused, LogUnavailable) as error:
        return Finding(name="migrations", state="fail", text=str(error))
    if not missing:
        return Finding(name="migrations", state="ok", text="all applied")
    text = f"{', '.join(missing)} will be applied by `navi serve` or `navi migrate`"
    return Finding(name="migrations", state="warn", text=text)


async def _row_security(servers: Attached, found: Examined) -> Finding:
    if not found.takes_settings:
        text = (
            "is off, and no statement has a time-out: what stands between navi and Postgres drops the "
            f"settings that navi connects with: {DIRECTLY}"
        )
        return Finding(name="row security", state="warn", text=text)
    try:
        is_on = await may_open_readers(servers.database_url)
    except LogUnavailable as error:
        return Finding(name="row security", state="fail", text=str(error))
    if is_on:
        return Finding(name="row security", state="ok", text="shows each user their own rows alone")
    text = (
        f"is off, since there is no role for it: as a superuser: {REMEDY} the user of DATABASE_URL"
    )
    return Finding(name="row security", state="warn", text=text)


async def _read_models(servers: Attached) -> Finding:
    try:
        async with open_pool(servers.database_url, size=1) as pool:
            read_models = PostgresReadModels(pool)
            parked = {
                each.name: len(await read_models.parked(each.name, each.version))
                for each in PROJECTIONS
            }
    except LogUnavailable as error:
        return Finding(name="read models", state="fail", text=str(error))
    count = sum(parked.values())
    if count == 0:
        return Finding(name="read models", state="ok", text="leave out no event")
    names = ", ".join(name for name, events in parked.items() if events)
    text = f"{names} leave out {count} events: `navi projections status` lists them"
    return Finding(name="read models", state="warn", text=text)


async def _sessions(servers: Attached) -> Finding:
    try:
        async with open_pool(servers.database_url, size=1) as pool:
            newer = await newer_sessions(pool)
    except LogUnavailable as error:
        return Finding(name="sessions", state="fail", text=str(error))
    if not newer:
        return Finding(name="sessions", state="ok", text="this navi can go on with all")
    named = ", ".join(
        f"{each.session_id} (event {each.seq}, a {each.type} of version {each.version})"
        for each in newer[:MOST_NAMED]
    )
    more = f" and {len(newer) - MOST_NAMED} more" if len(newer) > MOST_NAMED else ""
    text = f"only a newer navi can go on with, this one only read: {named}{more}"
    return Finding(name="sessions", state="warn", text=text)


async def _nats(settings: Settings, servers: Attached) -> list[Finding]:
    assert servers.nats_url is not None  # noqa: S101 - asked for
    try:
        found = await examine_nats(servers.nats_url)
    except BusUnavailable as error:
        return [Finding(name="NATS", state="fail", text=str(error))]
    run = await asyncio.to_thread(read_run, settings.data_dir)
    where = place_of("NATS_URL", settings.nats_url, given=run and run.nats_given)
    major, minor = (int(part) for part in found.version.split(".")[:2])
    if (major, minor) < OLDEST_NATS:
        text = f"{found.version} ({where}): 2.10 or newer is needed"
        return [Finding(name="NATS", state="fail", text=text)]
    findings = [Finding(name="NATS", state="ok", text=f"{found.version} ({where})")]
    if found.jetstream:
        findings.append(Finding(name="JetStream", state="ok", text="answers"))
    else:
        text = f"is missing: {found.remedy}"
        findings.append(Finding(name="JetStream", state="fail", text=text))
    return findings
