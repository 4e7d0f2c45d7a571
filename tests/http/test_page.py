"""The page as it is served: to whom, how, and how much of it."""

import json
import re
from collections import deque
from hashlib import sha256

from navi.http.page.assets import STATIC, Assets
from navi.http.page.routes import CONTENT_SECURITY
from tests.support.app import RunningApp

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
FIRST_LOAD = 120_000  # bytes, compressed


async def test_browsers_get_the_page_and_programs_what_navi_is(app: RunningApp) -> None:
    page = await app.client.get("/", headers=BROWSER)
    welcome = await app.client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == CONTENT_SECURITY
    assert welcome.json()["name"] == "navi"
    assert page.headers["vary"] == welcome.headers["vary"] == "Accept, Accept-Encoding"


async def test_the_page_is_the_same_at_every_session(app: RunningApp) -> None:
    page = await app.client.get("/", headers=BROWSER)
    for path in ("/s/01990000-0000-7000-8000-000000000bad", "/s/x?at=3", "/setup"):
        assert (await app.client.get(path)).text == page.text


def test_the_policy_lets_no_text_become_a_program() -> None:
    assert "unsafe" not in CONTENT_SECURITY
    assert "require-trusted-types-for 'script'" in CONTENT_SECURITY
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<style|\son[a-z]+=|\sstyle=", page)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))


async def test_files_are_packed_and_kept_for_ever(app: RunningApp) -> None:
    page = (await app.client.get("/", headers=BROWSER)).text
    (main,) = re.findall(r'<script type="module" src="([^"]+)">', page)
    packed = await app.client.get(main, headers={"accept-encoding": "br"})
    plain = await app.client.get(main, headers={"accept-encoding": "identity"})
    assert packed.headers["content-encoding"] == "br"
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text
    whole = (STATIC / "app" / "main.js").read_text()
    sent = [line for line in whole.splitlines() if line and not line.startswith("//")]
    assert packed.text.splitlines() == sent
    assert "immutable" in packed.headers["cache-control"]
    version = main.split("/")[2]
    for missing in (main.replace(version, "0" * 16), main + "x", f"/static/{version}/../app.py"):
        assert (await app.client.get(missing)).status_code == 404


def test_the_first_load_is_small_with_a_conversation_in_it() -> None:
    assets = Assets()
    page = assets.page.content.decode()
    names = set(re.findall(rf"/static/{assets.version}/([^\"]+)", page))
    markdown = {"vendor/marked.js", "style/markdown.css"} | {
        f"app/{name}.js"
        for name in (
            "chat/code_block",
            *(f"markdown/{each}" for each in ("addresses", "block", "document", "highlight")),
            *(f"markdown/{each}" for each in ("inline", "lex", "settling")),
        )
    }
    found = [assets.get(name) for name in names | markdown]
    assert all(found)
    assert len(assets.page.gzip) + sum(len(asset.gzip) for asset in found if asset) < FIRST_LOAD


def test_only_comments_are_left_out_of_what_is_sent() -> None:
    assets = Assets()
    for path in (STATIC / "app").rglob("*.js"):
        asset = assets.get(path.relative_to(STATIC).as_posix())
        assert asset is not None
        sent = deque(line for line in asset.content.decode().splitlines() if line)
        for line in filter(None, map(str.strip, path.read_text().splitlines())):
            if sent and line.startswith(sent[0]) and not line.startswith("//"):
                rest = line.removeprefix(sent.popleft()).strip()
                assert not rest or rest.startswith("// "), (path, line)
            else:
                assert line.startswith(("//", "/**", "*")), (path, line)
        assert not sent, path


def test_vendored_modules_are_those_of_the_manifest() -> None:
    vendor = STATIC / "vendor"
    listed = json.loads((vendor / "MANIFEST.json").read_text())["modules"]
    there = {path.relative_to(vendor).as_posix() for path in vendor.rglob("*.js")}
    assert there == {entry["file"] for entry in listed}
    for entry in listed:
        assert sha256((vendor / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
