"""Google ADK: `DatabaseSessionService`, an `append_event` for each of the 12 events of a turn."""
# pyright: basic
# pyright: reportMissingImports=false

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService, Session
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from bench.peers.turn import ANSWER, CALL_ARGUMENTS, CALL_NAME, CALLS, QUESTION, RESULT

APP, AGENT, USER = "bench", "agent", "user"


class AdkStore:
    """Sessions of ADK in one database."""

    def __init__(self, service: DatabaseSessionService) -> None:
        self._service = service

    async def session(self, turns: int) -> Session:
        session = await self._service.create_session(app_name=APP, user_id=USER)
        for _ in range(turns):
            await self.turn(session)
        return session

    async def turn(self, session: Session) -> None:
        for event in _events():
            await self._service.append_event(session, event)


def _events() -> Iterator[Event]:
    invocation = uuid4().hex
    yield _event(invocation, USER, Part(text=QUESTION))
    for _ in range(CALLS):
        call = FunctionCall(id=uuid4().hex, name=CALL_NAME, args=CALL_ARGUMENTS)
        yield _event(invocation, AGENT, Part(function_call=call))
        response = FunctionResponse(id=call.id, name=CALL_NAME, response={"result": RESULT})
        yield _event(invocation, AGENT, Part(function_response=response))
    yield _event(invocation, AGENT, Part(text=ANSWER))


def _event(invocation: str, author: str, part: Part) -> Event:
    role = "user" if author == USER else "model"
    return Event(invocation_id=invocation, author=author, content=Content(role=role, parts=[part]))


@asynccontextmanager
async def opened(dsn: str) -> AsyncGenerator[AdkStore, None]:
    """The sessions in a database."""
    service = DatabaseSessionService(
        dsn.replace("postgresql", "postgresql+asyncpg", 1), pool_size=16
    )
    try:
        yield AdkStore(service)
    finally:
        await service.close()
