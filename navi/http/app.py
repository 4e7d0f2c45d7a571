"""The ASGI application: routes, error handlers, middleware."""

from collections.abc import Iterable
from functools import cache
from typing import Any, cast

from litestar import Litestar
from litestar.di import Provide
from litestar.types import ASGIApp, Receive, Scope, Send

from navi.domain.vocabulary.principal import Principal
from navi.http.api.approvals import decide_approval, get_approvals
from navi.http.api.audit import get_audit
from navi.http.api.auth import (
    add_token,
    change_password,
    get_me,
    get_tokens,
    login,
    logout,
    revoke_token,
    set_up,
)
from navi.http.api.contexts import compress_context, get_planning, undo_compression
from navi.http.api.events import get_events, get_request
from navi.http.api.files import download_file, get_files, upload_files
from navi.http.api.forks import fork_session
from navi.http.api.health import get_live, get_ready
from navi.http.api.memories import add_memory, change_memory, forget_memory, get_memories
from navi.http.api.messages import get_context, get_messages, get_todo, send_message
from navi.http.api.metrics import get_metrics
from navi.http.api.node import get_node
from navi.http.api.search import search
from navi.http.api.sessions import (
    change_session,
    create_session,
    delete_session,
    get_session,
    get_sessions,
    stop_session,
)
from navi.http.api.tools_and_profiles import get_profiles, get_tools
from navi.http.api.usage import get_usage
from navi.http.api.users import add_user, change_user, get_users, remove_user
from navi.http.api.workspace import download_workspace_file, get_picture, get_workspace
from navi.http.doors.agui.run_agent import run_agent
from navi.http.doors.openai import errors as openai_errors
from navi.http.doors.openai.routes import complete_chat, get_model, get_models
from navi.http.live.stream_events import stream_events
from navi.http.live.watch_session import watch_session
from navi.http.page.routes import DEPENDENCIES as PAGE_DEPENDENCIES
from navi.http.page.routes import (
    get_asset,
    get_session_page,
    get_setup_page,
    get_welcome,
)
from navi.http.requests.access import DEPENDENCIES, check_access, paths_of
from navi.http.requests.bodies import MAX_BODY_BYTES
from navi.http.requests.errors import ERROR_FORMS, EXCEPTION_HANDLERS, log_broken_socket
from navi.http.requests.services import Services
from navi.http.schemas.schema_routes import get_asyncapi, get_event_schema, get_openapi
from navi.http.server.authentication import Authentication, Identify
from navi.http.server.connection_limit import ConnectionLimit
from navi.http.server.guard import Guard
from navi.http.server.packing import Packing
from navi.http.server.proxies import Proxies
from navi.http.server.request_form import RequestForm, ServerOptions, options_routes
from navi.http.server.request_limits import RequestLimits

ROUTES = (
    get_welcome,
    get_session_page,
    get_setup_page,
    get_asset,
    create_session,
    get_sessions,
    get_session,
    change_session,
    delete_session,
    stop_session,
    fork_session,
    search,
    get_approvals,
    decide_approval,
    send_message,
    get_messages,
    get_context,
    get_todo,
    get_planning,
    compress_context,
    undo_compression,
    upload_files,
    get_files,
    download_file,
    get_workspace,
    download_workspace_file,
    get_picture,
    get_memories,
    add_memory,
    change_memory,
    forget_memory,
    get_events,
    get_models,
    get_model,
    complete_chat,
    stream_events,
    run_agent,
    get_request,
    get_profiles,
    get_tools,
    get_usage,
    get_live,
    get_ready,
    get_metrics,
    get_node,
    get_openapi,
    get_asyncapi,
    get_event_schema,
    set_up,
    login,
    logout,
    get_me,
    change_password,
    get_tokens,
    add_token,
    revoke_token,
    get_users,
    add_user,
    change_user,
    remove_user,
    get_audit,
    watch_session,
)

_ERROR_FORMS = {openai_errors.PREFIX: openai_errors.error_of}


def create_app(
    services: Services,
    *,
    host: str,
    allowed_hosts: Iterable[str] = (),
    identify: Identify,
    proxies: Proxies,
) -> ASGIApp:
    """The application on these services.

    Args:
        host: the address that is listened on; a name by which the server may be called.
        allowed_hosts: further names, such as the machine's own where that listens on all addresses.
        identify: finds whom a request comes from.
        proxies: those that are believed.
    """
    within = RequestLimits(
        ServerOptions(Packing(routed()), ROUTES), services.rates, free=paths_of(ROUTES, "open")
    )
    watched = paths_of(ROUTES, "admin_read")
    known = Authentication(within, identify, proxies, watched=watched)
    limited = ConnectionLimit(known, services.metrics)
    guarded = Guard(limited, host=host, allowed_hosts=allowed_hosts)
    formed = RequestForm(guarded)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        given: dict[str, Any] = {"state": {"services": services}, ERROR_FORMS: _ERROR_FORMS}
        cast("dict[str, Any]", scope).update(given)
        await formed(scope, receive, send)

    return answer


@cache
def routed() -> Litestar:
    """The routes, which answer by the services in the state of a request's scope.

    Made once a process: what Litestar works out about each takes longer than all else in it.
    """
    return Litestar(
        # First: a path without one gets the handler of `OPTIONS` that Litestar makes.
        route_handlers=[*options_routes(ROUTES), *ROUTES],
        dependencies={
            "services": Provide(_services, sync_to_thread=False),
            **DEPENDENCIES,
            **PAGE_DEPENDENCIES,
        },
        guards=[check_access],
        exception_handlers=EXCEPTION_HANDLERS,
        after_exception=[log_broken_socket],
        request_max_body_size=MAX_BODY_BYTES,
        openapi_config=None,  # ``schema`` describes the routes: their bodies are read by hand
        logging_config=None,
        debug=False,
    )


def _services(scope: Scope) -> Services:
    services: Services = scope["state"]["services"]
    return services.seen_by(cast("Principal | None", scope["user"]))
