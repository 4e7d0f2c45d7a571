"""A client of navi in Python: sessions, messages with receipts, streams that resume, approvals.

    async with Navi("http://127.0.0.1:8000") as navi:
        session = await navi.create_session()
        print((await session.ask("hello")).content)

Needs httpx and websockets, and nothing else of navi: see docs/client.md.
"""

from navi.client.client import Navi
from navi.client.errors import NaviError, NotSignedIn, Refused, Unavailable
from navi.client.events import Event
from navi.client.messages import Answer, Receipt
from navi.client.session import Session

__all__ = [
    "Answer",
    "Event",
    "Navi",
    "NaviError",
    "NotSignedIn",
    "Receipt",
    "Refused",
    "Session",
    "Unavailable",
]
