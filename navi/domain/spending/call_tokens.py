"""What a model call came to, in tokens: as the server counted them, else as navi estimates them.

An estimate is logged with the event that ends the call. So it is the same when the log is folded again,
when deltas were pruned, and when words were erased.
"""

from math import ceil

from msgspec import UNSET, Struct, UnsetType

from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import ModelCallFailed, ModelReplied, Usage

CHARS_PER_TOKEN = 3.5  # of an answer, where the server does not count it


class CallTokens(Struct, frozen=True, kw_only=True):
    """Tokens of one call that has ended.

    Attributes:
        cached: of the prompt, what the server had not to read anew; None where it does not say.
        estimated: whether a count is an estimate.
    """

    prompt: int
    completion: int
    cached: int | None
    estimated: bool

    @property
    def total(self) -> int:
        """What the call takes of a budget."""
        return self.prompt + self.completion


def tokens_of(end: ModelReplied | ModelCallFailed) -> CallTokens:
    """What a call came to; nothing where neither a server nor navi has said it, as in old logs."""
    counted = end.usage or Usage()
    instead = end.estimate or Usage()
    return CallTokens(
        prompt=_first(counted.prompt_tokens, instead.prompt_tokens),
        completion=_first(counted.completion_tokens, instead.completion_tokens),
        cached=None if counted.cached_tokens is UNSET else counted.cached_tokens,
        estimated=None in (counted.prompt_tokens, counted.completion_tokens),
    )


def estimate(usage: Usage | UnsetType, *, prompt: int | UnsetType, said: int) -> Usage | UnsetType:
    """The counts that a server left out, as they are logged; absent where it left out none.

    Args:
        prompt: as it was estimated when the call was made; absent in logs of before, whose calls stay
            without an estimate.
        said: characters of all that came of the answer.
    """
    counted = usage or Usage()
    if prompt is UNSET or None not in (counted.prompt_tokens, counted.completion_tokens):
        return UNSET
    return Usage(
        prompt_tokens=prompt if counted.prompt_tokens is None else None,
        completion_tokens=(
            ceil(said / CHARS_PER_TOKEN) if counted.completion_tokens is None else None
        ),
    )


def was_read(failure: ModelFailure) -> bool:
    """Whether a server may have read the prompt of a call that failed.

    It has not where nobody was there, where the model was not loaded, and where the request was refused
    for what it was: too long, too many, not allowed.
    """
    refused = failure.status is not None and 400 <= failure.status < 500
    return not (failure.refused or failure.loading or failure.kind == "overflow" or refused)


def _first(*counts: int | None) -> int:
    return next((count for count in counts if count is not None), 0)
