"""Passwords by argon2id (RFC 9106), in threads."""

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor

import argon2

HASHES_AT_ONCE = 2  # each takes a core for 30 ms, and 19 MiB
SECRET_BYTES = 32

# The least that OWASP asks of argon2id: 19 MiB, two passes, one lane. A login is then cheap enough for
# hundreds of people who come at once, and guessing at a stolen table is not.
TIME_COST, MEMORY_KIB, LANES = 2, 19 * 1024, 1


class Argon2Passwords:
    """The port ``Passwords``."""

    def __init__(self, *, time_cost: int = TIME_COST, memory_kib: int = MEMORY_KIB) -> None:
        self._hasher = argon2.PasswordHasher(
            time_cost=time_cost, memory_cost=memory_kib, parallelism=LANES
        )
        self._nobodys: str | None = None  # a hash that no password of anybody has
        # Threads of their own, not any that is free: each that has hashed once keeps those 19 MiB.
        self._threads = ThreadPoolExecutor(HASHES_AT_ONCE, thread_name_prefix="passwords")

    async def hash(self, password: str) -> str:
        running = asyncio.get_running_loop()
        return await running.run_in_executor(self._threads, self._hasher.hash, password)

    async def verify(self, password: str, hashed: str | None) -> bool:
        running = asyncio.get_running_loop()
        return await running.run_in_executor(self._threads, self._verify, password, hashed)

    def secret(self) -> str:
        return secrets.token_urlsafe(SECRET_BYTES)

    def _verify(self, password: str, hashed: str | None) -> bool:
        if hashed is None:
            if self._nobodys is None:
                self._nobodys = self._hasher.hash(self.secret())
            hashed, known = self._nobodys, False
        else:
            known = True
        try:
            self._hasher.verify(hashed, password)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False
        return known
