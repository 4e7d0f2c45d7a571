"""Settings of the agent that decide what it does, as the log keeps them with each model call."""

import msgspec
from msgspec import Struct

from navi.application.agent.compress import CompressSettings


class AgentSettings(Struct, frozen=True, kw_only=True):
    """What calls are made with beside a profile.

    Attributes:
        subagent_seconds: from the start of a subagent to its end.
    """

    compression: CompressSettings
    subagent_seconds: float


def settings_text(settings: AgentSettings) -> str:
    """The settings as the log keeps them."""
    return msgspec.json.encode(settings).decode()


def logged_settings(text: str) -> AgentSettings | None:
    """The settings of a text that the log keeps; None where this version does not understand it."""
    try:
        return msgspec.json.decode(text, type=AgentSettings)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
