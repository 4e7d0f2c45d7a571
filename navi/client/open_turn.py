"""Where the turn began that was open when a session was first looked at."""

from navi.client.connection import Connection


async def before_open_turn(navi: Connection, session_id: str, *, head: int) -> int:
    """The seq before the last ``turn_started`` up to ``head``; ``head`` where there is none.

    For whoever has no event of it yet: by the next connection the turn may have ended, and without
    ``after`` only what is new comes then, or what belongs to another turn.

    Raises:
        Refused: there is no such session, for whom the token is.
        NotSignedIn: navi wants a token, or another one.
        Unavailable: navi did not answer in time.
    """
    query = {"type": "turn_started", "before": head + 1, "limit": 1}
    answer = await navi.ask("GET", f"/sessions/{session_id}/events", query=query)
    return next((started["seq"] - 1 for started in answer["events"]), head)
