"""What a call may take: room in its model's window, tokens for its answer, and limits with it."""

from collections.abc import Mapping

from msgspec.structs import replace

from navi.domain.context.prompt import ModelRequest
from navi.domain.context.window import (
    Fitted,
    Rate,
    TooLarge,
    counted_rate,
    fit,
    sizes_of,
    why_too_large,
)
from navi.domain.model_calls.answer_bounds import bound
from navi.domain.model_calls.model_choice import Candidate
from navi.domain.model_calls.repetition import (
    Repetition,
    RepetitionLimits,
    answer_before,
    repetition_in,
)
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import ModelReplied
from navi.domain.vocabulary.ids import CallId
from navi.ports.model_servers import ModelServers, Target

# Of the window: how large a request was that was refused by a server which does not say it.
UNCOUNTED_OVERFLOW = 1.1


class NoRoom(ModelFailure):
    """The request does not fit into the window, whatever is left out: it is not sent."""


class CallBounds:
    """The bounds of calls; learns from what the servers count."""

    def __init__(self, servers: ModelServers) -> None:
        self._servers = servers
        self._rates: dict[Candidate, Rate] = {}
        self._thinks: set[Candidate] = set()  # models that think although they are told not to

    async def window(self, target: Target, num_ctx: int | None) -> int:
        """Tokens of a call, prompt and answer.

        Args:
            num_ctx: what a profile asks for.
        """
        if num_ctx is not None:
            return num_ctx
        window = (await self._servers.capacity(target)).context_window
        assert window is not None  # noqa: S101 - the port says so
        return window

    def rate(self, target: Target) -> Rate:
        """Characters a token."""
        return self._rates.get(_candidate(target), Rate())

    async def fitted(
        self,
        target: Target,
        request: ModelRequest,
        *,
        results: Mapping[CallId, int],
        max_tokens: int | None,
    ) -> Fitted:
        """The request with what has to be left out for it to fit, and a bound to its answer.

        Args:
            request: with the window that is asked for; None for the server's.
            results: the keys of tool results in the context, by their calls: these may be shortened.
            max_tokens: the most that the answer may have; None for all the room there is.

        Raises:
            NoRoom: it does not fit.
        """
        window = await self.window(target, request.options.num_ctx)
        rate = self.rate(target)
        fitted = fit(request, results=results, window=window, rate=rate)
        if isinstance(fitted, TooLarge):
            why = why_too_large(fitted, window=window, rate=rate, model=target.model_name)
            raise NoRoom("overflow", why, prompt_tokens=fitted.tokens, window=window)
        most = bound(
            max_tokens,
            room=window - fitted.tokens,
            thinks=request.options.think is True or _candidate(target) in self._thinks,
        )
        options = replace(request.options, num_ctx=window, max_tokens=most)
        return replace(fitted, request=replace(fitted.request, options=options))

    def answered(self, target: Target, fitted: Fitted, reply: ModelReplied) -> None:
        """Learn from a call that went well."""
        if reply.usage.prompt_tokens is not None:
            self._counted(target, fitted, reply.usage.prompt_tokens)
        if reply.thinking and fitted.request.options.think is not True:
            self._thinks.add(_candidate(target))

    def refused(self, target: Target, fitted: Fitted, error: ModelFailure) -> str:
        """Learn from a call that was refused for length; what is how large, for people."""
        window = error.window or fitted.request.options.num_ctx or 0
        self._counted(target, fitted, error.prompt_tokens or round(window * UNCOUNTED_OVERFLOW))
        rate, sizes = self.rate(target), sizes_of(fitted.request)
        too_large = TooLarge(sizes=sizes, tokens=rate.tokens(sizes.total))
        why = why_too_large(too_large, window=window, rate=rate, model=target.model_name)
        return f"{why} (the server says: {error.error})"

    def repetition_in(self, text: str, limits: RepetitionLimits) -> Repetition | None:
        """What a model repeats without end; None where it does not."""
        return repetition_in(text, limits)

    def answer_before(self, text: str) -> int:
        """How many characters of a text that was closed for that are an answer."""
        return answer_before(text)

    def _counted(self, target: Target, fitted: Fitted, prompt_tokens: int) -> None:
        rate = counted_rate(sizes_of(fitted.request).total, prompt_tokens)
        if rate is not None:
            self._rates[_candidate(target)] = rate


def _candidate(target: Target) -> Candidate:
    return Candidate(target.model.backend, target.model_name)
