"""The error that keeps a command from being run on a host."""

from navi.domain.vocabulary.errors import NaviError


class SshFault(NaviError):
    """The command was not started; the message says why, in words for the model."""
