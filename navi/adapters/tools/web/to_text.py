"""Turn what a server answered into text: pages into Markdown, PDFs into text, the rest as it is.

What reads the formats is imported when it is needed: each call is a process of its own.
"""

import html
import io
import logging
import re
import time

from msgspec import Struct

from navi.adapters.tools.web.charset import decode

PDF_SECONDS = 8.0  # of a processor; then the pages read so far are the answer
MAX_CHARACTERS = 8 * 1024 * 1024  # of a text; markup can make much out of little
SHORT = 200  # characters: a page of less, where there is much more, was misunderstood

# What stands around a text on a page. Only what is named so for certain: an `aside` may be a note in
# a manual, and whole pages are wrapped in a `form`.
AROUND = (
    *("nav", "footer", "dialog", "button", "select"),
    *(
        '[role="navigation"]',
        '[role="dialog"]',
        '[role="contentinfo"]',
        '[role="banner"]',
        '[role="search"]',
    ),
    *('[aria-hidden="true"]', '[aria-modal="true"]'),
    *(".navbar", ".sidebar", ".breadcrumb", ".breadcrumbs", ".pagination", ".skip-link"),
    *(
        ".cookie-banner",
        ".cookie-consent",
        "#cookie-banner",
        "#cookie-consent",
        "#onetrust-consent-sdk",
    ),
    *(".newsletter", ".newsletter-signup", ".social-share", ".share-buttons", ".related-articles"),
    *(
        ".related",
        ".related-posts",
        ".recommendations",
        ".advertisement",
        ".ad-slot",
        ".adsbygoogle",
    ),
    *(
        "#footer",
        "#foot",
        "#sidebar",
        "#navigation",
        "#mw-navigation",
        "#mw-panel",
        ".mw-editsection",
    ),
    *(".headerlink", ".site-header", ".site-footer", ".site-nav", "#masthead"),
)

MAX_HEADING = 4_000  # characters that are looked at; a title has 1,000
_TITLE = re.compile(r"<title[^>]{0,200}>(.{0,1000}?)</title", re.IGNORECASE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)
# A comment ends at the first "-->" for good: to try each later one takes time without bound.
_HTML = re.compile(
    rb"\s*+(?:(?><!--.{0,500}?-->)\s*+)*+<(?:!doctype html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_AS_TEXT = re.compile(
    r"text/.+|.+[/+](?:json|xml|yaml)|application/(?:x-)?(?:ndjson|javascript|yaml|toml|sql|x-sh)"
)


class NotReadable(Exception):
    """There is no text in it; the message says why."""


class Text(Struct, frozen=True, kw_only=True):
    """A text, and what there is to say about it."""

    text: str
    kind: str
    remark: str = ""


def to_text(body: bytes, content_type: str, url: str) -> Text:
    """The text of an answer.

    Args:
        url: what relative links of a page mean.

    Raises:
        NotReadable: it is no text, and holds none.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if body.startswith(b"%PDF-") or media_type == "application/pdf":
        return _cut(_pdf(body))
    unnamed = media_type in (
        "",
        "application/octet-stream",
        "binary/octet-stream",
        "unknown/unknown",
    )
    if media_type in ("text/html", "application/xhtml+xml") or (unnamed and _HTML.match(body)):
        return _cut(_page(decode(body, content_type), url))
    if _AS_TEXT.fullmatch(media_type) or (unnamed and b"\0" not in body):
        text = decode(body, content_type)
        if "\0" in text:
            raise NotReadable(
                f"it is no text, though its server calls it {media_type or 'nothing'}"
            )
        return _cut(Text(text=text, kind="JSON" if media_type.endswith("json") else "text"))
    what = re.sub(r"[^\w/+.-]", "", media_type)[:80] or "something that is no text"
    raise NotReadable(f"it is {what}: only pages, PDF, JSON and text can be read")


def _page(page: str, url: str) -> Text:
    # NUL is nothing in HTML, and the reader takes pages with many for something else.
    page = page.replace("\0", "")
    text = _markdown(page, url, without=AROUND)
    if len(text) < SHORT and len(whole := _markdown(page, url, without=())) > 2 * len(text):
        text = whole
    title = " ".join(html.unescape(match[1]).split()) if (match := _TITLE.search(page)) else ""
    heading = _HEADING.search(text)
    if (
        title
        and not (heading and _bare(heading[1][:MAX_HEADING]) in title)
        and not text.startswith(title)
    ):
        text = f"# {title}\n\n{text}"
    if heading is None and text in ("", f"# {title}\n\n") and "<script" in page.lower():
        return Text(
            text=text, kind="page", remark="The page is made by scripts, which are not run."
        )
    return Text(text=text, kind="page")


def _markdown(page: str, url: str, *, without: tuple[str, ...]) -> str:
    import html_to_markdown

    options = html_to_markdown.ConversionOptions(
        base_url=url,
        exclude_selectors=list(without),
        # Its own notion of what stands around a text takes forms away, and all of a page in one.
        preprocessing=html_to_markdown.PreprocessingOptions(enabled=False),
        hidden_content="drop",
        inline_data_media="alt_text_only",
        extract_metadata=False,
        compact_tables=True,
        skip_images=True,
    )
    try:
        return (html_to_markdown.convert(page, options).content or "").strip()
    except (html_to_markdown.ConversionError, html_to_markdown.PanicError, ValueError) as error:
        raise NotReadable(f"the page cannot be read: {str(error)[:200]}") from error


def _bare(heading: str) -> str:
    """A heading without its markup."""
    return " ".join(re.sub(r"\[(.*?)\]\(.*?\)|[*_`\\]", r"\1", heading).split())


def _pdf(body: bytes) -> Text:
    import pypdf
    from pypdf.errors import PyPdfError

    logging.disable(logging.CRITICAL)  # what is wrong with a page is said in its place
    began = time.process_time()
    pages: list[str] = []
    size = 0
    try:
        reader = pypdf.PdfReader(io.BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise NotReadable("the PDF is protected by a password")
        count = len(reader.pages)
        for number, page in enumerate(reader.pages, start=1):
            if time.process_time() - began > PDF_SECONDS or size > MAX_CHARACTERS:
                break
            text = _of_pdf_page(page)
            size += len(text)
            pages.append(f"[page {number} of {count}]\n\n{text}")
    except (PyPdfError, *_BROKEN) as error:
        if not pages:
            raise NotReadable(f"the PDF is broken: {str(error)[:200]}") from error
        return Text(text="\n\n".join(pages), kind="PDF", remark="The rest of the PDF is broken.")
    if size == 0:
        raise NotReadable(f"the PDF has {count} pages and no text: they may be pictures")
    remark = (
        "" if len(pages) == count else f"Only the first {len(pages)} of {count} pages were read."
    )
    return Text(text="\n\n".join(pages), kind="PDF", remark=remark)


# What a library raises on data that its author did not think of.
_BROKEN = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RecursionError,
    OverflowError,
)


def _of_pdf_page(page: "object") -> str:
    from pypdf import PageObject
    from pypdf.errors import PyPdfError

    assert isinstance(page, PageObject)  # noqa: S101
    try:
        return page.extract_text().strip()
    except (PyPdfError, *_BROKEN):
        return "(this page cannot be read)"


def _cut(text: Text) -> Text:
    if len(text.text) <= MAX_CHARACTERS:
        return text
    remark = f"{text.remark} Its text was cut after {MAX_CHARACTERS:,} characters.".strip()
    return Text(text=text.text[:MAX_CHARACTERS], kind=text.kind, remark=remark)
