"""What of a page, a PDF or another answer reaches the model."""

import io
from contextlib import suppress
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, StreamObject

from navi.adapters.tools.web.to_text import NotReadable, Text, to_text

PAGES = Path(__file__).parent / "pages"
URL = "https://site.example/dir/page.html"

# By page: what has to survive, and what stands around it and must not. Bigger libraries were held
# against this list: see docs/tools.md.
KEPT = {
    "article": [
        "# Ferry to Vlieland runs again", "14 March 2026", "7:00, 11:15, 14:30 and 19:05",
        "410,000 cubic metres", "[the water authority](https://rijkswaterstaat.example/vliestroom)",
        "## Islanders had to improvise", "> Nobody went hungry", "before its first crossing",
        "- The channel is surveyed", "until 31 August", "votes on a permanent dredging contract",
    ],
    "docs": [
        "# queue.push()", "push(item, *, priority=0, timeout=None)", "raises `QueueFull`",
        "| Name | Type | Meaning |", "| `item` | bytes | at most 64 KiB |", "between -8 and 7",
        'with tubes.open("jobs") as queue:\n    for n in range(3):\n        queue.push(b"job %d" % n',
        "```", "Since 4.0 a negative priority no longer drops", "3. Close it, or items",
    ],
    "shop": [
        "Wanderschuh Kreuzeck GTX", "189,95 €", "Auf Lager", "Steigeisen mit Körbchenbindung",
        "900 km", "| Gewicht | 640 g (Größe 42) |", "KZ-4471-B", "eine halbe Nummer kleiner",
    ],
    "forum": [
        "# Espresso machine loses pressure", "citric acid", "with a guitar string",
        "over-pressure valve", "A flake of 2 mm", "kettle_9", "brewer",
    ],
    "table": [
        "# Bridges of the Dale", "As of January 2026", "Length (m)", "| Long Reach | 1,204 | 1971 | yes |",
        "| Mill Ford | 41 | 1652 | no |", "Source: county survey",
    ],
    "scripts": ["# Fleet dashboard"],
    "broken": [
        "nine members", "*two by telephone*", "Mr Okafor & Ms Lind", "48 pounds", "Plot 12 is free",
        "31 names", "only on the first Saturday", "7 June, 18:30", "https://site.example/dir/next.html",
    ],
    "index": [
        "[Notice 17: light buoy VL 9 unlit](https://harbour.example/office/notices/2026-17.html)",
        "new berth fees", "https://harbour.example/office/tides/2026.pdf", "(12 March)",
    ],
    "hidden": ["# Sourdough for beginners", "a spoonful floats", "350 g of water", "25 more"],
    "wiki": [
        "# Drift net", "*without* being anchored", "[a lead line](https://site.example/Lead_line)",
        "15th century", "| Limit (UN) | 2.5 km |", "effective from 1992", "banned by the EU", "The Drift Nets",
    ],
    "tiny": ["pong"],
}  # fmt: skip
LEFT_OUT = {
    "article": ["842 partners", "Sport", "Sign up", "All rights reserved", "dataLayer", "display:block"],
    "docs": ["Installation", "Changelog", "Sphinx 9", "¶"],
    "shop": ["Widerrufsrecht", "Merinosocke", "In den Warenkorb", "@type"],
    "forum": ["Powered by BoardWare"],
    "table": [],
    "scripts": ["secretBuild", "token", "written"],
    "broken": ["never closed"],
    "index": ["Nederlands"],
    "hidden": ["evil.example", "code_exec", "Reveal the system", "Template instructions"],
    "wiki": ["Random article", "Donate", "edit", "CC BY-SA"],
    "tiny": [],
}  # fmt: skip


def page(name: str) -> Text:
    return to_text((PAGES / f"{name}.html").read_bytes(), "text/html", URL)


@pytest.mark.parametrize("name", KEPT)
def test_what_a_page_says_survives_and_what_stands_around_it_does_not(name: str) -> None:
    text = page(name).text

    missing = [words for words in KEPT[name] if words not in text]
    noise = [words for words in LEFT_OUT[name] if words in text]
    assert (missing, noise) == ([], [])


def test_every_page_is_held_against_the_list() -> None:
    assert {file.stem for file in PAGES.iterdir()} == KEPT.keys() == LEFT_OUT.keys()


def test_a_page_that_scripts_make_says_so() -> None:
    assert page("scripts").remark == "The page is made by scripts, which are not run."


def html(markup: str) -> str:
    return to_text(markup.encode(), "text/html; charset=utf-8", URL).text


def test_a_title_stands_on_top_where_the_page_does_not_say_it() -> None:
    assert html("<title> A &amp;\n B </title><p>text") == "# A & B\n\ntext"
    assert html("<title>A - Site</title><h1><a href=x>A</a></h1><p>text").count("# ") == 1


def test_a_page_that_is_all_navigation_is_shown_as_it_is() -> None:
    words = "words of a page whose author put all of it into a navigation " * 10

    assert words.strip() in html(f"<body><nav><p>{words}</p></nav></body>")


def test_a_note_within_a_form_or_an_aside_stays() -> None:
    assert "first" in html("<form id=aspnet><p>first</p></form>")
    assert "second" in html("<main><p>text</p><aside>second</aside></main>")


def test_a_picture_within_a_page_is_not_shown_as_text() -> None:
    assert "AAAA" not in html(f"<p>x<img src='data:image/png;base64,{'A' * 9_000}'></p>")


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b'{"a": [1, 2]}', "application/json", "JSON"),
        (b'{"a":\n 1}', "application/problem+json; charset=utf-8", "JSON"),
        (b"a;b\n1;2", "text/csv", "text"),
        (b"# not HTML <b>", "text/markdown", "text"),
        (b"<rss><item/></rss>", "application/rss+xml", "text"),
        (b"plain", "", "text"),
        (b"plain", "application/octet-stream", "text"),
    ],
)  # fmt: skip
def test_text_stays_as_it_is(body: bytes, content_type: str, kind: str) -> None:
    assert to_text(body, content_type, URL) == Text(text=body.decode(), kind=kind)


def test_a_page_without_a_type_is_known_by_its_beginning() -> None:
    got = to_text(b" <!-- x --> <!DOCTYPE html><p>hello", "", URL)

    assert got == Text(text="hello", kind="page")


@pytest.mark.timeout(60)  # for ever where each comment may end at any later one's end
def test_what_begins_with_many_comments_and_is_no_page_is_known_at_once() -> None:
    comments = b"<!---->" * 10_000

    assert to_text(comments + b"x", "", URL).kind == "text"
    assert to_text(comments + b"<html><p>hello", "", URL).kind == "page"


@pytest.mark.timeout(60)  # minutes where a link is looked for in all of it
def test_a_heading_without_end_is_no_title() -> None:
    assert html(f"<title>A</title><h1>{'[' * 200_000}</h1>").startswith("# A\n\n# ")


@pytest.mark.parametrize(
    ("body", "content_type", "why"),
    [
        (b"\x89PNG", "image/png", "it is image/png: only pages, PDF, JSON and text can be read"),
        (b"PK", "application/zip", "it is application/zip: only"),
        (b"\0\0", "application/octet-stream", "it is application/octet-stream: only"),
        (b"\0\0", "", "it is something that is no text"),
        (b"a\0b", "text/plain", "it is no text, though its server calls it text/plain"),
        (b"x", "video/mp4\x1b[31m<system>", "it is video/mp431msystem: only"),
        (b"%PDF-1.7 nonsense", "application/pdf", "the PDF is broken"),
        (b"not a PDF", "application/pdf", "the PDF is broken"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_in_words(body: bytes, content_type: str, why: str) -> None:
    with pytest.raises(NotReadable) as refusal:
        to_text(body, content_type, URL)

    assert str(refusal.value).startswith(why)


# PDF


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text a page."""
    kids = " ".join(f"{3 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
    ]
    font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {font} "
            f"/Contents {4 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    whole, places = b"%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, start=1):
        places.append(len(whole))
        whole += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(whole)}\n%%EOF"
    return whole + end.encode()


@pytest.mark.parametrize("content_type", ["application/pdf", "", "text/html", "application/octet-stream"])  # fmt: skip
def test_a_pdf_is_text_page_by_page(content_type: str) -> None:
    got = to_text(pdf("Tide table", "High water 04:12"), content_type, URL)

    words = "[page 1 of 2]\n\nTide table\n\n[page 2 of 2]\n\nHigh water 04:12"
    assert got == Text(text=words, kind="PDF")


def test_a_pdf_of_pictures_says_that_it_has_no_text() -> None:
    with pytest.raises(NotReadable, match="2 pages and no text"):
        to_text(pdf("", ""), "application/pdf", URL)


def test_a_bomb_in_a_pdf_is_not_unpacked() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("one", "two"))))
    bomb = StreamObject()
    bomb.set_data(bytes(100 * 2**20))
    writer.pages[0][NameObject("/Contents")] = writer._add_object(bomb.flate_encode())
    written = io.BytesIO()
    writer.write(written)

    got = to_text(written.getvalue(), "application/pdf", URL)

    assert got.text == "[page 1 of 2]\n\n(this page cannot be read)\n\n[page 2 of 2]\n\ntwo"


def protected(password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("secret"))))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")  # noqa: S106
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def test_a_pdf_with_a_password_is_not_read_and_one_without_is() -> None:
    with pytest.raises(NotReadable, match="protected by a password"):
        to_text(protected("open sesame"), "application/pdf", URL)

    assert "secret" in to_text(protected(""), "application/pdf", URL).text


@pytest.mark.parametrize("cut", [200, 400, 600])
def test_half_a_pdf_ends_in_words(cut: int) -> None:
    with suppress(NotReadable):  # or gives what there is; it raises nothing else
        assert to_text(pdf("one", "two", "three")[:cut], "application/pdf", URL).kind == "PDF"
