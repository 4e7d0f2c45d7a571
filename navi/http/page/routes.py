"""The page that people open, and the files that it is made of."""

import asyncio
from functools import cache
from http import HTTPStatus
from typing import Any

from litestar import Request, Response, get
from litestar.di import NamedDependency, Provide
from litestar.params import SkipValidation
from msgspec import Struct

from navi.http.page.assets import Asset, Assets
from navi.http.requests.access import access
from navi.http.requests.bodies import NO_STORE, answer
from navi.http.requests.errors import RequestRefused
from navi.http.requests.operation import operation
from navi.http.requests.services import Given, PathText

FOR_EVER = "public, max-age=31536000, immutable"
# No script, style or markup but ours: what models and tools write is text to the page, and a remote
# picture would carry away what stands in its address.
CONTENT_SECURITY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)


class Welcome(Struct, frozen=True, kw_only=True):
    """What this is, for whoever opens the address."""

    name: str
    version: str
    schema: str = "/schema"
    events: str = "/schema/events.json"
    sessions: str = "/sessions"


GivenAssets = NamedDependency[SkipValidation[Assets]]


@cache
def _assets() -> Assets:
    return Assets()


# Read in a thread, when the page is first asked for.
DEPENDENCIES = {"assets": Provide(_assets, sync_to_thread=True)}


async def _page(request: Request[None, None, Any], assets: Assets) -> Response[bytes]:
    headers = {
        "Cache-Control": NO_STORE,
        "Content-Security-Policy": CONTENT_SECURITY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Vary": "Accept, Accept-Encoding",
    }
    return await _packed(request, assets.page, headers)


async def _packed(
    request: Request[None, None, Any], asset: Asset, headers: dict[str, str]
) -> Response[bytes]:
    accepted = request.headers.get("accept-encoding", "")
    encoding, content = await asyncio.to_thread(asset.encoded, accepted)
    if encoding is not None:
        headers["Content-Encoding"] = encoding
    return Response(content, media_type=asset.media_type, headers=headers)


@get("/", opt=operation(access="open", answers={200: Welcome}))
async def get_welcome(
    request: Request[None, None, Any], services: Given, assets: GivenAssets
) -> Response[bytes]:
    """The page for browsers; for programs what this is and where its routes are described."""
    if "text/html" in request.headers.get("accept", ""):
        return await _page(request, assets)
    response = answer(Welcome(name="navi", version=services.version))
    response.headers["Vary"] = "Accept, Accept-Encoding"
    return response


@get("/s/{session_id:str}", opt=access("open"), include_in_schema=False)
async def get_session_page(
    request: Request[None, None, Any], session_id: PathText, assets: GivenAssets
) -> Response[bytes]:
    """The page at a session; it asks for what it shows, so there is one of any id."""
    return await _page(request, assets)


@get("/setup", opt=access("open"), include_in_schema=False)
async def get_setup_page(request: Request[None, None, Any], assets: GivenAssets) -> Response[bytes]:
    """The page where the first user is made."""
    return await _page(request, assets)


@get("/static/{version:str}/{path:path}", opt=access("open"), include_in_schema=False)
async def get_asset(
    request: Request[None, None, Any], version: PathText, path: PathText, assets: GivenAssets
) -> Response[bytes]:
    """A file of the page, which does not change under its address."""
    asset = assets.get(path.lstrip("/")) if version == assets.version else None
    if asset is None:
        raise RequestRefused(HTTPStatus.NOT_FOUND, "there is no such file; load the page again")
    return await _packed(request, asset, {"Cache-Control": FOR_EVER, "Vary": "Accept-Encoding"})
