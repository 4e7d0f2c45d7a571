"""Assemble streamed tool calls of OpenAI-compatible servers, which differ in how they cut them.

Seen in the wild: no ``index`` (Gemini, proxies), ``index`` 0 for all of several calls
(ollama#15457), ids missing or repeated in each piece, whole calls in one piece, arguments as an
object instead of text.
"""

from msgspec import Struct, field

from navi.adapters.llm.wire_json import ReplyLimit, requested_call
from navi.domain.vocabulary.events import Json
from navi.ports.language_model import RequestedCall

COST_OF_A_CALL = (
    64  # bytes that count in the reply's limit, so that empty calls cannot be endless either
)


class FunctionPiece(Struct):
    """The ``function`` of a piece; arguments are a fragment of JSON text, or an object."""

    name: Json = None
    arguments: Json = None


class CallPiece(Struct):
    """One entry of ``delta.tool_calls``."""

    index: Json = None
    id: Json = None
    function: FunctionPiece | None = None


class _Call(Struct):
    id: str | None
    name: str
    text: list[str] = field(default_factory=list[str])
    whole: Json = None  # arguments that came as an object

    def requested(self) -> RequestedCall:
        arguments = self.whole if self.whole is not None else "".join(self.text)
        return requested_call(self.name, arguments)


class CallAssembler:
    """The calls of one reply, in the order in which they began."""

    def __init__(self, limit: ReplyLimit) -> None:
        self._limit = limit
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def __bool__(self) -> bool:
        """Whether any call has begun."""
        return bool(self._calls)

    def take(self, piece: CallPiece) -> None:
        """Add a piece to the call that it belongs to.

        Raises:
            ModelFailure: ``protocol``, the reply has become too large.
        """
        function = piece.function or FunctionPiece()
        call = self._call_of(piece, function)
        if isinstance(function.arguments, str):
            self._limit.spend(len(function.arguments.encode(errors="replace")))
            call.text.append(function.arguments)
        elif function.arguments is not None:
            call.whole = function.arguments

    def requested(self) -> tuple[RequestedCall, ...]:
        """The calls, with their arguments read; to be asked for when the reply has ended."""
        return tuple(call.requested() for call in self._calls)

    def _call_of(self, piece: CallPiece, function: FunctionPiece) -> _Call:
        index = piece.index if isinstance(piece.index, int) else None
        name = function.name if isinstance(function.name, str) else ""
        id_ = piece.id if isinstance(piece.id, str) and piece.id else None
        if index is not None:
            open_call = self._by_index.get(index)
        else:
            open_call = self._calls[-1] if self._calls else None
        if open_call is None or _begins_another(open_call, id_, name):
            self._limit.spend(COST_OF_A_CALL + len(name))
            open_call = _Call(id=id_, name=name)
            self._calls.append(open_call)
            if index is not None:
                self._by_index[index] = open_call
        open_call.id = open_call.id or id_
        open_call.name = open_call.name or name
        return open_call


def _begins_another(open_call: _Call, id_: str | None, name: str) -> bool:
    """Whether a piece with this id and name is not a continuation of the open call."""
    if id_ is not None and open_call.id is not None:
        return id_ != open_call.id
    if not name or not open_call.name:
        return False
    if name != open_call.name:
        return True
    # The same name again without an id to tell them apart: a repetition while the arguments are
    # unfinished, another call of the same tool once they are whole.
    has_arguments = open_call.whole is not None or bool(open_call.text)
    return has_arguments and open_call.requested().arguments is not None
