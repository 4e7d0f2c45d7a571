"""Where navi is served: importable without the server."""

from msgspec import Struct


class Address(Struct, frozen=True, kw_only=True):
    """Where the server listens; ``port`` is the real one, also where 0 was asked for."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """How a browser on this machine gets there."""
        reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - told apart, not listened on
        name = f"[{reachable}]" if ":" in reachable else reachable
        return f"http://{name}:{self.port}"
