"""The files of the page: what each is, packed, and under which version; without a build.

Comments and indentation are for whoever reads the files, and are not sent: they would be a fifth of the
first load.
"""

import gzip
import posixpath
import re
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath

import brotli

STATIC = Path(__file__).parent.parent / "static"
ENTRY = "app/main.js"
PAGE = "index.html"
VENDOR = "vendor/"
VERSION_DIGITS = 16

MEDIA_TYPES = {
    ".html": "text/html",  # Litestar names the charset
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}

# Those that have lines of their own, or end one of code: no template of ours has anything like them.
_COMMENTS = {
    ".js": re.compile(
        rb"^[ \t]*(?://.*|/\*\*(?s:.*?)\*/)\n|(?<=[;,{}\])>])[ \t]+// .*$", re.MULTILINE
    ),
    ".css": re.compile(rb"/\*(?s:.*?)\*/\n*"),
}
# No string of ours, of several lines or not, means anything by the blanks that a line begins with, or by an empty line.
_INDENTATION = re.compile(rb"^\s+", re.MULTILINE)

# Modules name each other by relative paths; an `import(...)` is loaded when it is wanted.
_IMPORT = re.compile(r"""(?:\bfrom\s*|^\s*import\s*)["'](\.[^"']+)["']""", re.MULTILINE)


class Asset:
    """A file of the page."""

    def __init__(self, name: str, content: bytes) -> None:
        suffix = PurePosixPath(name).suffix
        comments = None if name.startswith(VENDOR) else _COMMENTS.get(suffix)
        self.content = (
            content if comments is None else _INDENTATION.sub(b"", comments.sub(b"", content))
        )
        self.media_type = MEDIA_TYPES[suffix]

    @cached_property
    def gzip(self) -> bytes:
        """Its content, packed with gzip."""
        return gzip.compress(self.content, mtime=0)

    @cached_property
    def brotli(self) -> bytes:
        """Its content, packed with Brotli."""
        return brotli.compress(self.content, quality=11)

    def encoded(self, accept_encoding: str) -> tuple[str | None, bytes]:
        """The name of the encoding and the bytes that suit a request best; packs them the first time."""
        accepted = {part.partition(";")[0].strip() for part in accept_encoding.split(",")}
        if "br" in accepted:
            return "br", self.brotli
        if "gzip" in accepted:
            return "gzip", self.gzip
        return None, self.content


class Assets:
    """All files of the page by their path, read once.

    Attributes:
        version: a hash of all of them, which stands in their URLs: what is behind one never changes.
        preloaded: the modules that the page needs before it shows anything, in the order of their imports.
        page: the document itself.
    """

    def __init__(self, root: Path = STATIC) -> None:
        found = {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.suffix in MEDIA_TYPES and path.name != PAGE
        }
        digest = sha256()
        for name, content in found.items():
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
        self.version = digest.hexdigest()[:VERSION_DIGITS]
        self._assets = {name: Asset(name, content) for name, content in found.items()}
        self.preloaded = tuple(self._imports_of(ENTRY, {}))
        self.page = Asset(PAGE, self._document((root / PAGE).read_text()).encode())

    def get(self, name: str) -> Asset | None:
        """The file of a path; None if there is none."""
        return self._assets.get(name)

    def _document(self, text: str) -> str:
        preloads = "\n".join(
            f'<link rel="modulepreload" href="/static/{self.version}/{name}">'
            for name in self.preloaded
        )
        return text.replace("{version}", self.version).replace("{preloads}", preloads)

    def _imports_of(self, name: str, seen: dict[str, None]) -> dict[str, None]:
        """The paths that a module imports, and itself, each once."""
        if name in seen:
            return seen
        seen[name] = None
        folder = PurePosixPath(name).parent
        for path in _IMPORT.findall(self._assets[name].content.decode()):
            self._imports_of(posixpath.normpath(folder / path), seen)
        return seen
