"""Everything that can be refused or go wrong, as one tree.

NaviError
├── BadInput                a value from outside breaks a limit; names the field
├── NotFound                no such session, call, projection
│   ├── NothingToDecide     the tool call does not wait for a decision
│   └── Erased              it was there, and was erased
├── RuleBroken              a command does not fit the session's state
│   ├── TurnUnderway        a turn is open already
│   ├── NothingToDeliver    no message waits for a turn
│   ├── NoTurn              the command needs an open turn
│   ├── AlreadyDecided      the tool call waited for a decision, and has one
│   ├── MessageIdReused     the id stands for another content
│   ├── TooManyWaiting      the session's queue of messages is full
│   ├── TooManyUploads      too many come in at one time
│   ├── UploadsFull         more than a session's uploads may be
│   ├── OutOfBudget         the tokens of a turn, a session or a day are spent
│   └── Fenced              another process has taken the turn over, or it has ended
├── NotSignedIn             nobody known is behind the request, or what they said is wrong
├── Forbidden               it is known who asks, and they may not
├── TooManyTries            of guessing a password; says when to come back
├── ConcurrentAppend        somebody appended to the session first
├── EventTooLarge           an envelope above the limit
├── AlreadyThere            a session that is to be imported is in the log
├── ExportDamaged           an export is not what was signed, or never was one
├── ExportTooLarge          sessions name more texts than an export may hold
├── Unavailable             a server that navi needs does not answer
│   ├── LogUnavailable      Postgres
│   ├── ReceiptUnknown      behind a message: it may have been received
│   ├── FilesUnavailable    the files directory
│   └── BusUnavailable      NATS
│       └── BusSilent       NATS is there, and says nothing
├── DiskFull                no room is left in the files directory
├── StoreRefused            the database must not be used as it is: settings, schema
├── LogDamaged              positions with a hole, a broken chain, a fork of history
├── StreamMoved             a NATS stream does not end where its writer thought
├── StreamRefused           a NATS stream is not this log's, or NATS will not keep it
└── ModelFailure            a model call ended badly
"""

from typing import Literal

FailureKind = Literal[
    "timeout_first_chunk",
    "timeout_chunk",
    "connection",
    "http",
    "protocol",
    "stopped",
    "interrupted",
    "overflow",
    "runaway",
    "preempted",
]
BudgetScope = Literal["turn", "session", "day"]


class NaviError(Exception):
    """Root of all errors that navi raises on purpose."""


class BadInput(NaviError):
    """A value from outside breaks a rule; ``field`` names it, ``cause`` says which rule."""

    def __init__(self, field: str, cause: str) -> None:
        super().__init__(f"{field}: {cause}")
        self.field = field
        self.cause = cause


class NotFound(NaviError):
    """What was asked for does not exist."""


class NothingToDecide(NotFound):
    """The tool call does not wait for a decision."""


class Erased(NotFound):
    """What was asked for cannot be given any more: words that it needs were erased."""


class RuleBroken(NaviError):
    """The command does not fit the state of the session."""


class TurnUnderway(RuleBroken):
    """A turn is open already."""


class NothingToDeliver(RuleBroken):
    """No message waits for a turn."""


class AlreadyDecided(RuleBroken):
    """The tool call waited for a decision, and has one."""


class NoTurn(RuleBroken):
    """The command needs an open turn."""


class MessageIdReused(RuleBroken):
    """The message id stands for another content already."""


class TooManyWaiting(RuleBroken):
    """The session's queue of messages is full, by their number or their bytes."""


class TooManyUploads(RuleBroken):
    """Too many uploads are under way, of an owner or of the node."""


class UploadsFull(RuleBroken):
    """The session's uploads would be more than they may be."""


class OutOfBudget(RuleBroken):
    """The tokens of a turn, a session or a user's day are spent: no model is called.

    Attributes:
        retry_after: seconds until there are new ones; None where there never will be.
    """

    def __init__(
        self, words: str, *, scope: BudgetScope, limit: int, spent: int, retry_after: int | None
    ) -> None:
        super().__init__(words)
        self.scope: BudgetScope = scope
        self.limit = limit
        self.spent = spent
        self.retry_after = retry_after


class Fenced(RuleBroken):
    """Another process has taken the turn over, or it has ended: the caller must stop at once."""


class NotSignedIn(NaviError):
    """Nobody known is behind the request, or the name, the password or the token is wrong."""


class Forbidden(NaviError):
    """It is known who asks, and they may not."""


class TooManyTries(NaviError):
    """Too many wrong passwords; ``retry_after`` is in seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many wrong passwords; try again in {retry_after} s")
        self.retry_after = retry_after


class ConcurrentAppend(NaviError):
    """Somebody appended to the session first; read what is new and decide again."""

    def __init__(self, session_id: str, expected: int) -> None:
        super().__init__(f"session {session_id} is no longer at seq {expected}")
        self.session_id = session_id
        self.expected = expected


class EventTooLarge(NaviError):
    """An envelope would be larger than the limit."""


class AlreadyThere(NaviError):
    """A session that is to be imported is in the log; nothing was written."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"session {session_id} is in the log already; nothing was imported")
        self.session_id = session_id


class ExportDamaged(NaviError):
    """An export is not what was signed, or never was one; nothing was written."""


class ExportTooLarge(NaviError):
    """The sessions name more texts than an export may hold; nothing was given."""


class Unavailable(NaviError):
    """A server that navi needs does not answer."""


class LogUnavailable(Unavailable):
    """Postgres does not answer; whether the last append was stored is unknown."""


class ReceiptUnknown(Unavailable):
    """A server did not answer while a message was received; whether it was is unknown."""


class BusUnavailable(Unavailable):
    """NATS does not answer."""


class BusSilent(BusUnavailable):
    """NATS is there: the connection stands, and an answer does not come."""


class FilesUnavailable(Unavailable):
    """The files directory cannot be read or written, or another process holds it for too long."""


class DiskFull(NaviError):
    """No room is left in the files directory; nothing of what was to be written is there."""


class StoreRefused(NaviError):
    """The database must not be used as it is: unsafe settings, an edited or a newer schema."""


class LogDamaged(NaviError):
    """The log contradicts itself: a hole, a broken chain, a fork of history."""


class StreamMoved(NaviError):
    """A NATS stream does not end where its writer thought: look again and go on from there."""


class StreamRefused(NaviError):
    """A NATS stream is not this log's, or NATS will not keep it; the message says what helps."""


class ModelFailure(NaviError):
    """A model call ended badly.

    Attributes:
        kind: as it stands in ``model_call_failed``.
        status: of the HTTP answer, where one came.
        tool_calls_came: whether the server had sent tool calls before it failed.
        retry_after: seconds the server asked to wait, where it did.
        mended: the backend renders the next request in another way, so that trying again makes
            sense whatever the status.
        loading: the server is there and loads its model: it will take the call later.
        refused: nobody listens at its address.
        prompt_tokens: of a request that was refused for length (``overflow``), where the server
            says it.
        window: of the server, in tokens, likewise.
    """

    def __init__(
        self,
        kind: FailureKind,
        error: str,
        *,
        status: int | None = None,
        tool_calls_came: bool = False,
        retry_after: float | None = None,
        mended: bool = False,
        loading: bool = False,
        refused: bool = False,
        prompt_tokens: int | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__(error)
        self.kind: FailureKind = kind
        self.error = error
        self.status = status
        self.tool_calls_came = tool_calls_came
        self.retry_after = retry_after
        self.mended = mended
        self.loading = loading
        self.refused = refused
        self.prompt_tokens = prompt_tokens
        self.window = window
