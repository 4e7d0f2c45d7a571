"""Compose what the doors for other programs do with sessions, for a node and a test alike."""

from navi.application.commands.manage_sessions import ManageSessions
from navi.application.composition.compose_log_services import LogServices
from navi.application.doors.take_message import TakeMessage
from navi.application.uploads.manage_uploads import ManageUploads


def compose_take_message(
    services: LogServices, sessions: ManageSessions, uploads: ManageUploads
) -> TakeMessage:
    """What takes in messages of programs that keep conversations by themselves."""
    ports = services.ports
    return TakeMessage(
        ports.event_log, ports.read_models, sessions, services.fork_session, uploads, ports.secrets
    )
