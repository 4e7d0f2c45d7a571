"""The process that prepares pictures, driven as the server drives it."""

import base64
import io
from hashlib import sha256
from pathlib import Path

import pytest
from PIL import Image

from navi.adapters.files.workspaces import FolderWorkspaces
from navi.adapters.pictures.prepare import PicturesOfSessions
from navi.ports.pictures import NotShown
from tests.adapters.pictures.test_worker import file_of, png_that_claims
from tests.support.tool_context import SESSION


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    return await FolderWorkspaces(tmp_path).of(SESSION)


@pytest.fixture
def pictures(tmp_path: Path) -> PicturesOfSessions:
    return PicturesOfSessions(FolderWorkspaces(tmp_path), {})


async def test_a_picture_comes_with_the_hash_of_what_is_sent(
    workspace: Path, pictures: PicturesOfSessions
) -> None:
    (workspace / "chart.png").write_bytes(file_of(Image.new("RGB", (3000, 30), "blue"), "PNG"))

    picture = await pictures.prepare(SESSION, "chart.png")

    sent = base64.b64decode(picture.base64)
    assert (picture.media_type, picture.width, picture.height) == ("image/png", 1568, 16)
    assert picture.sha256 == sha256(sent).hexdigest()
    assert Image.open(io.BytesIO(sent)).size == (1568, 16)


async def test_what_cannot_be_shown_says_why(workspace: Path, pictures: PicturesOfSessions) -> None:
    (workspace / "text.png").write_text("not a picture")
    (workspace / "bomb.png").write_bytes(png_that_claims(60_000, 60_000))
    (workspace / "large.png").write_bytes(b"\0" * (33 * 1024 * 1024))
    (workspace / "link.png").symlink_to("/etc/passwd")
    whys = {
        "text.png": "is no PNG, JPEG, WebP or GIF",
        "bomb.png": "more than 50,000,000 pixels",
        "large.png": "larger than",
        "none.png": "No such file",
        "link.png": "links are not followed",
        "../x.png": "leaves the session's directory",
    }
    said: dict[str, str] = {}
    for path in whys:
        with pytest.raises(NotShown) as refused:
            await pictures.prepare(SESSION, path)
        said[path] = str(refused.value)

    assert {path: why for path, why in whys.items() if why not in said[path]} == {}
