"""Errors in OpenAI's form, for the routes below ``/v1/``: what their clients make exceptions of."""

from http import HTTPStatus

from msgspec import UNSET, Struct

from navi.http.requests.errors import Problem

PREFIX = "/v1/"  # of the paths whose errors these are


class OpenAIErrorDetail(Struct, frozen=True, kw_only=True):
    """What went wrong; ``param`` is the part of the request that is to blame, where one is."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Struct, frozen=True, kw_only=True):
    """An error as OpenAI writes it."""

    error: OpenAIErrorDetail


_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}


def openai_error(
    status: HTTPStatus, detail: str, *, code: str, param: str | None = None
) -> OpenAIError:
    """An error in OpenAI's form; ``code`` is what programs tell it by."""
    usual = (
        "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    )
    return OpenAIError(
        error=OpenAIErrorDetail(
            message=detail,
            type=_TYPES.get(status, usual),
            param=param,
            code=code.replace("-", "_"),
        )
    )


def error_of(problem: Problem) -> OpenAIError:
    """A problem in OpenAI's form."""
    return openai_error(
        HTTPStatus(problem.status),
        problem.detail,
        code=problem.type.rpartition(":")[2],
        param=None if problem.field is UNSET else problem.field,
    )
