# The type checker finds a package of this name, which comes with python-multipart (a dependency of
# mcp) and which at run time gives way to the module of the package multipart, which is meant.
from collections.abc import Generator

class MultipartError(ValueError): ...

class MultipartSegment:
    name: str | None
    filename: str | None
    content_type: str | None

class PushMultipartParser:
    def __init__(self, boundary: str | bytes, *, max_segment_count: float = ...) -> None: ...
    def parse(self, chunk: bytes | bytearray) -> Generator[MultipartSegment | bytearray | None]: ...
    def close(self, check_complete: bool = True) -> None: ...
