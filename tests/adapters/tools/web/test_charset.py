"""What a page is written in, by what its server, the page itself and its bytes say."""

import pytest

from navi.adapters.tools.web.charset import CODECS, decode

GERMAN, RUSSIAN, JAPANESE = "Käse für 5 €", "Привет, мир", "日本語の文章です"
META = '<meta charset="{}"><p>'
OLD_META = '<meta http-equiv="Content-Type" content="text/html; charset={}"><p>'


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (GERMAN.encode(), "text/html; charset=utf-8", GERMAN),
        (GERMAN.encode(), "text/html", GERMAN),
        (GERMAN.encode(), "", GERMAN),
        (GERMAN.encode("utf-8-sig"), "text/html; charset=iso-8859-1", GERMAN),
        (b"\xff\xfe" + GERMAN.encode("utf-16-le"), "text/html; charset=utf-8", GERMAN),
        (b"\xfe\xff" + GERMAN.encode("utf-16-be"), "text/html", GERMAN),
        (JAPANESE.encode("utf-16-le"), "text/plain; charset=UTF-16", JAPANESE),
        (GERMAN.encode("cp1252"), "text/html; charset=windows-1252", GERMAN),
        (GERMAN.encode("cp1252"), 'text/html; Charset="ISO-8859-1"', GERMAN),
        (GERMAN.encode("cp1252"), "text/html", GERMAN),
        (GERMAN.encode("iso8859-15"), "text/html; charset=iso-8859-15", GERMAN),
        (RUSSIAN.encode("cp1251"), "text/html; charset=windows-1251", RUSSIAN),
        (RUSSIAN.encode("koi8-r"), "text/html; charset=koi8-r", RUSSIAN),
        (JAPANESE.encode("cp932"), "text/html; charset=Shift_JIS", JAPANESE),
        (JAPANESE.encode("euc_jp"), "text/html; charset=euc-jp", JAPANESE),
        (JAPANESE.encode("iso2022_jp"), "text/html; charset=iso-2022-jp", JAPANESE),
        ("网页".encode("gbk"), "text/html; charset=gb2312", "网页"),
        ("網頁".encode("big5"), "text/html; charset=big5", "網頁"),
        ("웹페이지".encode("cp949"), "text/html; charset=euc-kr", "웹페이지"),
        ((META.format("koi8-r") + RUSSIAN).encode("koi8-r"), "text/html", META.format("koi8-r") + RUSSIAN),
        ((OLD_META.format("cp1251") + RUSSIAN).encode("cp1251"), "text/html", OLD_META.format("cp1251") + RUSSIAN),
        (("<?xml version='1.0' encoding='koi8-r'?>" + RUSSIAN).encode("koi8-r"), "text/xml", "<?xml version='1.0' encoding='koi8-r'?>" + RUSSIAN),
        # The header goes before the page, and both may be wrong.
        ((META.format("koi8-r") + RUSSIAN).encode("cp1251"), "text/html; charset=cp1251", META.format("koi8-r") + RUSSIAN),
        (RUSSIAN.encode(), "text/html; charset=iso-8859-1", RUSSIAN),
        ((META.format("cp1251") + RUSSIAN).encode(), "text/html", META.format("cp1251") + RUSSIAN),
        (GERMAN.encode("cp1252"), "text/html; charset=utf-8", GERMAN),
        ((META.format("utf-16") + RUSSIAN).encode(), "text/html", META.format("utf-16") + RUSSIAN),
        (GERMAN.encode(), "text/html; charset=klingon", GERMAN),
        (b"plain", "text/html; charset=zip", "plain"),
        (b"a+AD0-b", "text/html; charset=utf-7", "a+AD0-b"),
        (b"\\x41", "text/html; charset=unicode_escape", "\\x41"),
        (b"", "", ""),
    ],
)  # fmt: skip
def test_a_text_is_read_as_it_was_written(body: bytes, content_type: str, text: str) -> None:
    assert decode(body, content_type) == text


def test_one_wrong_byte_does_not_spoil_the_rest() -> None:
    body = RUSSIAN.encode() + b"\xff" + RUSSIAN.encode()

    assert decode(body, "text/html") == f"{RUSSIAN}\ufffd{RUSSIAN}"


@pytest.mark.parametrize("codec", sorted(set(CODECS.values())))
def test_every_codec_reads_whatever_bytes_there_are(codec: str) -> None:
    assert bytes(range(256)).decode(codec, "replace")
