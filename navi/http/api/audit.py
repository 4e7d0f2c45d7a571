"""The route of the audit log, for admins."""

from litestar import get
from litestar.types import ASGIApp

from navi.domain.vocabulary.events import AUDIT_TYPES
from navi.domain.vocabulary.ids import AUDIT_STREAM
from navi.http.api.events import EventList, stored_events
from navi.http.requests.errors import Edge
from navi.http.requests.operation import AFTER, BEFORE, LIMIT, operation
from navi.http.requests.query import limit_in, seq_in
from navi.http.requests.services import Given
from navi.ports.event_log import Selection, Types


@get(
    "/audit",
    opt=operation(
        access="admin", query=(AFTER, BEFORE, LIMIT), answers={200: EventList}, errors=(400,)
    ),
)
async def get_audit(request: Edge, services: Given) -> ASGIApp:
    """Who did what, oldest first; with ``before`` the last of it."""
    query = request.query_params
    selection = Selection(
        after=seq_in(query, "after") or 0,
        before=seq_in(query, "before"),
        limit=limit_in(query),
        types=Types(only=frozenset(AUDIT_TYPES)),
    )
    head = await services.event_log.head(AUDIT_STREAM)
    return stored_events(services.event_log, AUDIT_STREAM, selection, head=head)
