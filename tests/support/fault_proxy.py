"""A TCP proxy that breaks connections on command, for tests of what happens then.

    client --TCP--> FaultProxy --TCP/unix--> server
            "up" = client to server, "down" = server to client

    async with FaultProxy(("127.0.0.1", 5432)) as proxy:      # listens at proxy.host, proxy.port
        fault = proxy.add("lose_reply", match="COMMIT", times=1)
        ...
        assert fault.fired == 1        # a fault that never fired proves nothing: always assert this

Fault types
    pass        do nothing (clears nothing; handy as a no-op control row)
    refuse      stop listening: new connections get ECONNREFUSED (live ones are untouched)
    drop        accept, then close with FIN at once
    blackhole   accept, never read, never connect upstream (SYN/ACK but silence)
    reset       RST both sides when triggered (no trigger: live connections now, and every new one)
    close       FIN both sides when triggered
    stall       forward nothing in `dir` while active; nothing is lost, TCP back-pressure builds up
    swallow     read and throw away the bytes of `dir` (a half-open peer / one-way partition)
    latency     delay each chunk by ms +- jitter
    rate        limit to bps bytes per second
    slice       forward in pieces of `size` bytes, `ms` apart (framing bugs; size=1 is the classic)
    truncate    forward exactly `after` bytes of `dir`, then act: then=close|reset|stall|swallow
    corrupt     flip one bit of byte number `after` of `dir`
    lose_request  when `match` is seen going up: do NOT forward it, RST both sides (server never saw it)
    lose_reply    when `match` is seen going up: forward it, wait for the server's answer, throw the answer
                  away and RST the client (server did it, client cannot know) -> "unknown outcome"
Common parameters
    dir=up|down|both   which direction (default both; triggers default to up for match, down for truncate/corrupt)
    match=TEXT         trigger when these bytes pass (also across chunk borders); match_hex= for binary
    after=N            trigger after N bytes of one connection in `dir`
    times=N            fire at most N times, then stay silent (default: no limit)
    skip=N             let the first N triggers pass (e.g. fail the third COMMIT)
    new_only=true      only connections opened after the fault was added
Every random choice (jitter) comes from the seed, so a run can be repeated.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

CHUNK = 65536
TRIGGERED = {"reset", "close", "truncate", "corrupt", "lose_request", "lose_reply"}
TYPES = TRIGGERED | {
    "pass",
    "refuse",
    "drop",
    "blackhole",
    "stall",
    "swallow",
    "latency",
    "rate",
    "slice",
}


@dataclass
class Fault:
    type: str
    id: int
    dir: str = "both"
    match: bytes = b""
    after: int | None = None
    times: int | None = None
    skip: int = 0
    ms: float = 0.0
    jitter: float = 0.0
    bps: float = 0.0
    size: int = 1
    then: str = "close"
    new_only: bool = False
    fired: int = 0
    added: float = field(default_factory=time.monotonic)
    cleared: asyncio.Event = field(default_factory=asyncio.Event)

    def applies(self, d: str, conn: Conn) -> bool:
        if self.cleared.is_set() or (self.new_only and conn.opened < self.added):
            return False
        return self.dir in ("both", d)

    def take(self) -> bool:
        """One trigger happened: decide whether the fault fires."""
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.fired >= self.times:
            return False
        self.fired += 1
        return True

    def public(self) -> dict[str, Any]:
        out = {k: v for k, v in vars(self).items() if k not in ("cleared", "added", "match")}
        out["match"] = self.match.decode("latin-1")
        return out


def make_fault(fid: int, type: str, **kw: Any) -> Fault:  # noqa: A002 - a fault's own word
    if type not in TYPES:
        raise ValueError(f"unknown fault type {type!r}; one of {', '.join(sorted(TYPES))}")
    kw.pop("id", None)
    m = kw.pop("match", b"")
    m = m.encode() if isinstance(m, str) else bytes(m)
    if "match_hex" in kw:
        m = bytes.fromhex(kw.pop("match_hex"))
    known = set(Fault.__dataclass_fields__) - {"id", "type", "fired", "added", "cleared", "match"}
    bad = set(kw) - known
    if bad:
        raise ValueError(
            f"unknown parameter(s) {', '.join(sorted(bad))}; known: {', '.join(sorted(known))}"
        )
    conv: dict[str, Callable[[Any], object]] = {
        "after": int,
        "times": int,
        "skip": int,
        "size": int,
        "ms": float,
        "jitter": float,
        "bps": float,
        "new_only": lambda v: v if isinstance(v, bool) else str(v).lower() in ("1", "true", "yes"),
    }
    for k, v in list(kw.items()):
        if k in conv and v is not None:
            kw[k] = conv[k](v)
    if kw.get("dir", "both") not in ("up", "down", "both"):
        raise ValueError("dir must be up, down or both")
    if kw.get("then", "close") not in ("close", "reset", "stall", "swallow"):
        raise ValueError("then must be close, reset, stall or swallow")
    if "dir" not in kw:
        if type in ("lose_request", "lose_reply") or m:
            kw["dir"] = "up"
        elif type in ("truncate", "corrupt"):
            kw["dir"] = "down"
    if type in ("lose_request", "lose_reply") and not m:
        raise ValueError(f"{type} needs match=")
    if type in ("truncate", "corrupt") and kw.get("after") is None:
        raise ValueError(f"{type} needs after=N")
    if type == "rate" and kw.get("bps", 0) <= 0:
        raise ValueError("rate needs bps>0")
    if type == "slice" and kw.get("size", 1) < 1:
        raise ValueError("slice needs size>=1")
    return Fault(type=type, id=fid, match=m, **kw)


def _end(sock: socket.socket | None, rst: bool) -> None:
    if sock is None or sock.fileno() < 0:
        return
    loop = asyncio.get_running_loop()
    loop.remove_reader(sock)  # a closed fd left in the selector would hit its next owner
    loop.remove_writer(sock)
    try:
        if rst:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    except OSError:
        pass


class Conn:
    def __init__(self, proxy: FaultProxy, client: socket.socket) -> None:
        self.proxy, self.client = proxy, client
        self.server: socket.socket | None = None
        self.opened = time.monotonic()
        self.bytes = {"up": 0, "down": 0}
        self.carry = {"up": b"", "down": b""}
        self.frozen = asyncio.Event()  # a `then=stall` froze this connection for good
        self.discard: set[str] = set()  # directions whose bytes are thrown away from now on
        self.lost_reply = False
        self.dead = False
        self.tasks: list[asyncio.Task[None]] = []

    # ---- ends -------------------------------------------------------------------------------
    def rst(self) -> None:
        if not self.dead:
            self.dead = True
            _end(self.client, True)
            _end(self.server, True)
            self._cancel()

    def fin(self) -> None:
        if not self.dead:
            self.dead = True
            _end(self.client, False)
            _end(self.server, False)
            self._cancel()

    def _cancel(self) -> None:
        me = asyncio.current_task()
        for t in self.tasks:
            if t is not me and not t.done():
                t.cancel()

    # ---- life -------------------------------------------------------------------------------
    async def run(self) -> None:
        loop, p = asyncio.get_running_loop(), self.proxy
        try:
            for f in list(p.faults):
                if (
                    not f.applies("both", self)
                    and not f.applies("up", self)
                    and not f.applies("down", self)
                ):
                    continue
                untriggered = not f.match and f.after is None
                if f.type == "drop" and f.take():
                    return self.fin()
                if f.type == "reset" and untriggered and f.take():
                    return self.rst()
                if f.type == "close" and untriggered and f.take():
                    return self.fin()
                if f.type == "blackhole" and f.take():
                    await f.cleared.wait()
            try:
                self.server = await p._connect_upstream(loop)
                if self.dead:  # reset while the upstream was being connected
                    return _end(self.server, True)
            except OSError as e:
                p.stats["upstream_errors"] += 1
                p.last_error = repr(e)
                return self.rst()
            self.tasks = [
                asyncio.create_task(self.pump("up", self.client, self.server)),
                asyncio.create_task(self.pump("down", self.server, self.client)),
            ]
            await asyncio.gather(*self.tasks, return_exceptions=True)
        finally:
            self.fin()
            p.conns.discard(self)

    async def pump(self, d: str, src: socket.socket, dst: socket.socket) -> None:
        loop, p = asyncio.get_running_loop(), self.proxy
        try:
            while not self.dead:
                await self._hold(d)
                data = await loop.sock_recv(src, CHUNK)
                if not data:
                    with suppress(OSError):
                        dst.shutdown(socket.SHUT_WR)  # keep half-close semantics
                    return
                p.stats[f"bytes_{d}"] += len(data)
                await self._hold(d)  # a stall set while we sat in recv
                await self._deliver(d, data, dst)
        except asyncio.CancelledError:
            raise
        except (ConnectionError, OSError):
            self.rst()  # pass a RST on as a RST

    async def _hold(self, d: str) -> None:
        if self.frozen.is_set():
            await asyncio.Event().wait()  # frozen until the connection is killed
        while True:
            f = next(
                (
                    f
                    for f in self.proxy.faults
                    if f.type == "stall" and f.applies(d, self) and not f.match and f.after is None
                ),
                None,
            )
            if f is None:
                return
            f.fired = max(f.fired, 1)
            await f.cleared.wait()

    async def _send(self, d: str, dst: socket.socket, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        if not data:
            return
        self.bytes[d] += len(data)
        slicer = next(
            (f for f in self.proxy.faults if f.type == "slice" and f.applies(d, self)), None
        )
        if slicer is None:
            await loop.sock_sendall(dst, data)
            return
        slicer.fired += 1
        for i in range(0, len(data), slicer.size):
            await loop.sock_sendall(dst, data[i : i + slicer.size])
            await asyncio.sleep(slicer.ms / 1000)

    async def _deliver(self, d: str, data: bytes, dst: socket.socket) -> None:
        p = self.proxy
        if d == "down" and self.lost_reply:
            return self.rst()  # the answer exists, and dies here
        if d in self.discard:
            return None
        start = self.bytes[d]
        for f in list(p.faults):
            if not f.applies(d, self):
                continue
            t = f.type
            if t == "latency":
                f.fired += 1
                await asyncio.sleep(max(0.0, f.ms + p.rng.uniform(-f.jitter, f.jitter)) / 1000)
            elif t == "rate":
                f.fired += 1
                await asyncio.sleep(len(data) / f.bps)
            elif t == "swallow":
                f.fired += 1
                return None
            elif t in TRIGGERED or (t == "stall" and (f.match or f.after is not None)):
                cut = self._trigger(f, d, data, start)
                if cut is None or not f.take():
                    continue
                if t == "corrupt":
                    b = bytearray(data)
                    b[cut] ^= 0x01
                    data = bytes(b)
                    continue
                if t == "lose_request":
                    return self.rst()
                if t == "lose_reply":
                    self.lost_reply = True
                    continue  # forward the request, then wait for the reply
                act = f.then if t == "truncate" else t
                await self._send(d, dst, data[:cut])
                if act == "reset":
                    return self.rst()
                if act == "close":
                    return self.fin()
                if act == "swallow":
                    self.discard.add(d)
                    return None
                if t == "truncate":  # then=stall: hold what is left, for good
                    self.frozen.set()
                    return None
                await f.cleared.wait()  # triggered stall: resume when cleared
                return await self._send(d, dst, data[cut:])
        keep = max((len(f.match) for f in p.faults), default=0) - 1
        self.carry[d] = (self.carry[d] + data)[-keep:] if keep > 0 else b""
        await self._send(d, dst, data)
        return None

    def _trigger(self, f: Fault, d: str, data: bytes, start: int) -> int | None:
        """Index in `data` up to which bytes are still forwarded, or None when not triggered."""
        if f.match:
            tail = self.carry[d][-(len(f.match) - 1) :] if len(f.match) > 1 else b""
            i = (tail + data).find(f.match)
            if i < 0:
                return None
            return (
                max(0, i + len(f.match) - len(tail))
                if f.type != "corrupt"
                else max(0, i - len(tail))
            )
        if f.after is not None:
            if not start <= f.after < start + len(data) and not (
                f.after == start + len(data) and f.type != "corrupt"
            ):
                return None if f.after > start or f.type == "corrupt" else 0
            return f.after - start
        return None  # untriggered reset/close act on connect / at once


class FaultProxy:
    """One listening address in front of one upstream."""

    def __init__(
        self,
        upstream: tuple[str, int] | str,
        listen: tuple[str, int] = ("127.0.0.1", 0),
        name: str = "proxy",
        seed: int = 0,
    ) -> None:
        self.upstream, self.listen_addr, self.name = upstream, listen, name
        self.rng = random.Random(seed)  # noqa: S311 - jitter that can be repeated
        self.faults: list[Fault] = []
        self.history: list[Fault] = []
        self.conns: set[Conn] = set()
        self.stats = {"accepted": 0, "bytes_up": 0, "bytes_down": 0, "upstream_errors": 0}
        self.last_error = ""
        self._ids = itertools.count(1)
        self._lsock: socket.socket | None = None
        self._accept: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def host(self) -> str:
        return self.listen_addr[0]

    @property
    def port(self) -> int:
        return self.listen_addr[1]

    async def __aenter__(self) -> FaultProxy:
        await self.start()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.stop()

    async def start(self) -> None:
        fam = socket.AF_INET6 if ":" in self.listen_addr[0] else socket.AF_INET
        s = socket.socket(fam, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(self.listen_addr)
        s.listen(256)
        s.setblocking(False)
        self._lsock, self.listen_addr = s, s.getsockname()[:2]
        self._accept = asyncio.create_task(self._accept_loop(s))

    async def _stop_listening(self) -> None:
        if self._accept:
            self._accept.cancel()
            await asyncio.gather(self._accept, return_exceptions=True)
            self._accept = None
        if self._lsock:
            self._lsock.close()
            self._lsock = None

    async def stop(self) -> None:
        self.clear()
        await self._stop_listening()
        for c in list(self.conns):
            c.rst()
        for t in list(self._tasks):
            t.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept_loop(self, s: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(s)
            except asyncio.CancelledError:
                raise
            except OSError:
                await asyncio.sleep(0.05)  # EMFILE and friends: do not spin
                continue
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.stats["accepted"] += 1
            c = Conn(self, client)
            self.conns.add(c)
            t = asyncio.create_task(c.run())
            self._tasks.add(t)
            t.add_done_callback(self._tasks.discard)

    async def _connect_upstream(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        if isinstance(self.upstream, str):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            addr: Any = self.upstream
        else:
            s = socket.socket(
                socket.AF_INET6 if ":" in self.upstream[0] else socket.AF_INET, socket.SOCK_STREAM
            )
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            addr = self.upstream
        s.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(s, addr), 10)
        except BaseException:
            s.close()
            raise
        return s

    # ---- control ----------------------------------------------------------------------------
    def add(self, type: str, **kw: Any) -> Fault:  # noqa: A002 - a fault's own word
        f = make_fault(next(self._ids), type, **kw)
        self.faults.append(f)
        self.history.append(f)
        if f.type in ("reset", "close") and not f.match and f.after is None and not f.new_only:
            for c in list(self.conns):
                if f.take():
                    c.rst() if f.type == "reset" else c.fin()
        if f.type == "refuse":
            f.fired = 1
            asyncio.get_running_loop().create_task(self._stop_listening())
        return f

    def clear(self, fid: int | None = None) -> int:
        gone = [f for f in self.faults if fid is None or f.id == fid]
        for f in gone:
            self.faults.remove(f)
            f.cleared.set()
        if any(f.type == "refuse" for f in gone) and not any(
            f.type == "refuse" for f in self.faults
        ):
            asyncio.get_running_loop().create_task(self._relisten())
        return len(gone)

    async def _relisten(self) -> None:
        if self._lsock is None:
            await self.start()

    def reset_now(self) -> int:
        n = len(self.conns)
        for c in list(self.conns):
            c.rst()
        return n

    def close_now(self) -> int:
        n = len(self.conns)
        for c in list(self.conns):
            c.fin()
        return n
