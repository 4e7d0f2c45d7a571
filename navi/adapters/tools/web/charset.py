"""Decode the bytes of a page, whatever its server says of them."""

import codecs
import re

# Names that pages use, by what browsers read under them (WHATWG Encoding). Any other codec of Python
# is none of the web's: `zip`, `utf-7` and `unicode_escape` are codecs as well.
_LABELS = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 x-unicode20utf8",
    "cp1252": "ascii us-ascii ansi_x3.4-1968 iso-8859-1 iso8859-1 iso88591 iso_8859-1 latin1 l1 "
    "windows-1252 cp1252 x-cp1252",
    "iso8859-2": "iso-8859-2 iso8859-2 latin2 l2",
    "iso8859-3": "iso-8859-3 latin3",
    "iso8859-4": "iso-8859-4 latin4",
    "iso8859-5": "iso-8859-5 cyrillic",
    "iso8859-6": "iso-8859-6 arabic",
    "iso8859-7": "iso-8859-7 greek",
    "iso8859-8": "iso-8859-8 hebrew iso-8859-8-i logical",
    "iso8859-10": "iso-8859-10 latin6",
    "iso8859-13": "iso-8859-13",
    "iso8859-14": "iso-8859-14",
    "iso8859-15": "iso-8859-15 iso8859-15 latin9 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "koi8-r koi8 koi",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh x-mac-roman mac",
    "cp866": "ibm866 cp866 866",
    "cp874": "windows-874 tis-620 iso-8859-11",
    "cp1250": "windows-1250 cp1250",
    "cp1251": "windows-1251 cp1251",
    "cp1253": "windows-1253 cp1253",
    "cp1254": "windows-1254 iso-8859-9 latin5 cp1254",
    "cp1255": "windows-1255 cp1255",
    "cp1256": "windows-1256 cp1256",
    "cp1257": "windows-1257 cp1257",
    "cp1258": "windows-1258 cp1258",
    "gb18030": "gb18030 gbk gb2312 gb_2312-80 x-gbk chinese",
    "big5hkscs": "big5 big5-hkscs x-x-big5",
    "cp932": "shift_jis shift-jis sjis x-sjis windows-31j ms_kanji",
    "euc_jp": "euc-jp x-euc-jp",
    "iso2022_jp": "iso-2022-jp",
    "cp949": "euc-kr ks_c_5601-1987 windows-949 korean ksc5601",
    "utf-16-le": "utf-16 utf-16le unicode",
    "utf-16-be": "utf-16be",
}
CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}

_SEVERAL_BYTES = frozenset(
    ("gb18030", "big5hkscs", "cp932", "euc_jp", "iso2022_jp", "cp949", "utf-16-le", "utf-16-be")
)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_IN_HEADER = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_IN_PAGE = re.compile(
    rb"""<meta[^>]{0,300}?charset\s*=\s*["']?([\w.:-]{1,40})|\A\s*<\?xml[^>]{0,100}encoding\s*=\s*["']([\w.:-]{1,40})""",
    re.IGNORECASE,
)
_LOOKED_AT = 4_096  # bytes in which a page says what it is written in


def decode(body: bytes, content_type: str) -> str:
    """The text: by its byte order mark, the header, the page's own word, or what it can be.

    Valid UTF-8 is read as such where an encoding of single bytes is named, as these fit everything;
    and what is no UTF-8 is not, whoever says so.
    """
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    named = _named(body, content_type)
    if named not in _SEVERAL_BYTES:
        try:
            return body.decode()
        except UnicodeDecodeError:
            pass
    if named is None or named == "utf-8":
        text = body.decode("utf-8", "replace")
        strange = sum(1 for character in text if character > "\x7f")
        # A few wrong bytes are mistakes in UTF-8; where most are wrong it is something else.
        if text.count("\ufffd") * 2 <= strange and text.count("\ufffd"):
            return text
        named = "cp1252"
    return body.decode(named, "replace")


def _named(body: bytes, content_type: str) -> str | None:
    if (match := _IN_HEADER.search(content_type)) and (codec := CODECS.get(match[1].lower())):
        return codec
    if match := _IN_PAGE.search(body[:_LOOKED_AT]):
        label = (match[1] or match[2]).decode("ascii", "ignore").lower()
        codec = CODECS.get(label)
        # The page could be read so far: it cannot be in UTF-16.
        return "utf-8" if codec in ("utf-16-le", "utf-16-be") else codec
    return None
