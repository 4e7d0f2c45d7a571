"""The sandbox as it is offered: only where it has stood its own attacks on this machine."""

import asyncio
import hashlib
import os
import platform
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from navi import __version__
from navi.adapters.sandbox.bubblewrap import NoBubblewrap
from navi.adapters.sandbox.sandbox import Sandbox, SandboxFault, find_sandbox
from navi.adapters.sandbox.seccomp import UnknownMachine
from navi.adapters.sandbox.self_test import Denial, try_attacks
from navi.log_error import log_error

TRYING = "the sandbox is being attacked to see whether it holds; this takes a few seconds"
OFF = "NAVI_CODE_EXEC is off"
OTHER_SYSTEM = "the sandbox needs Linux"
PROOF_SECONDS = 180.0  # for all attacks, on a machine with much else to do

Attacks = Callable[[Sandbox], Awaitable[Sequence[Denial]]]

log = structlog.get_logger()


class _Proof(Struct, frozen=True, kw_only=True):
    """What held, as it is kept until the next start."""

    facts: str


class ProvenSandbox:
    """The sandbox of this machine, and why it cannot be used where that is so.

    What held at an earlier start, with the same kernel since the same boot and the same programs,
    is offered at once; the attacks are tried at each start all the same.
    """

    def __init__(
        self, *, wanted: bool, packages: Path | None, proof: Path, attack: Attacks = try_attacks
    ) -> None:
        """Name what there is to be.

        Args:
            wanted: the settings ask for it.
            packages: a directory of Python packages for the code; None for the standard library only.
            proof: the file that is kept for the next start.
            attack: tries all attacks.
        """
        self._attack = attack
        self._packages = packages
        self._proof = proof
        self._found: Sandbox | None = None
        self.reason: str | None = TRYING if wanted else OFF

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox, once it holds."""
        return self._found if self.reason is None else None

    async def find(self, search_path: str | None) -> None:
        """See what the machine has; quick."""
        if self.reason == OFF:
            return
        try:
            self._found = await asyncio.to_thread(self._find, search_path)
        except (NoBubblewrap, UnknownMachine, OSError) as error:
            self.reason = str(error)
            return
        if await asyncio.to_thread(self._has_held):
            self.reason = None

    async def prove(self) -> None:
        """Try the attacks, and offer the sandbox, or no longer, by what comes of them."""
        if self._found is None:
            return
        try:
            async with asyncio.timeout(PROOF_SECONDS):
                denials = await self._attack(self._found)
        except TimeoutError:
            await self._refuse(f"its attacks took longer than {PROOF_SECONDS:g} s")
            return
        except (SandboxFault, OSError) as error:
            await self._refuse(f"the sandbox cannot be set up: {error}")
            return
        except Exception as error:  # noqa: BLE001 - a border: nobody waits for this, and the proof of before would count
            log_error(log, "sandbox_not_tried", error)
            await self._refuse(f"its attacks could not be tried ({type(error).__name__})")
            return
        through = [denial for denial in denials if not denial.held]
        if through:
            said = "; ".join(f"{denial.attack} ({denial.how})" for denial in through)
            await self._refuse(f"the sandbox does not hold: {said}")
            return
        self.reason = None
        log.info("sandbox_holds", attacks=len(denials))
        await asyncio.to_thread(self._keep)

    async def _refuse(self, reason: str) -> None:
        self.reason = reason
        await asyncio.to_thread(self._proof.unlink, missing_ok=True)
        log.warning("code_exec_not_offered", reason=reason)

    def _find(self, search_path: str | None) -> Sandbox:
        if platform.system() != "Linux":
            raise NoBubblewrap(OTHER_SYSTEM)
        if self._packages is not None and not self._packages.is_dir():
            raise NoBubblewrap(f"NAVI_CODE_PACKAGES_DIR: {self._packages} is no directory")
        return find_sandbox(search_path, packages=self._packages)

    def _has_held(self) -> bool:
        try:
            kept = msgspec.json.decode(self._proof.read_bytes(), type=_Proof)
        except (OSError, msgspec.DecodeError):
            return False
        return kept.facts == self._facts()

    def _keep(self) -> None:
        temporary = self._proof.with_suffix(".tmp")
        try:
            temporary.touch(mode=0o600)  # as all that is in the data directory
            temporary.write_bytes(msgspec.json.encode(_Proof(facts=self._facts())))
            temporary.replace(self._proof)
        except OSError as error:  # the next start has to wait for the attacks
            log.warning("proof_not_kept", error=str(error))

    def _facts(self) -> str:
        """What the proof holds for, in one hash."""
        assert self._found is not None  # noqa: S101 - facts are about something
        boot = Path("/proc/sys/kernel/random/boot_id")
        facts = hashlib.sha256()
        for fact in (
            __version__,
            platform.release(),
            boot.read_text() if boot.exists() else "",
            str(os.getuid()),
            self._found.words,
            str(self._packages),
        ):
            facts.update(fact.encode() + b"\0")
        for source in sorted(Path(__file__).parent.glob("*.py")):
            facts.update(source.read_bytes())
        return facts.hexdigest()
