"""What the web tools may do here."""

from collections.abc import Mapping

from navi.adapters.tools.web.process import WebAccess, WebProcesses
from navi.settings import Settings


def web_access(settings: Settings, environment: Mapping[str, str]) -> WebAccess:
    """What the web tools work with, by the settings; their processes get little of the environment."""
    return WebAccess(
        processes=WebProcesses(environment),
        allowed=settings.web_allow,
        searxng=settings.searxng_url,
    )
