"""The process that decodes one picture: the file on stdin, a line of JSON and the new file on stdout.

It has little memory, little time, no file of its own to write and nothing of the server's environment.
"""

import io
import json
import resource
import sys

from PIL import Image, ImageFile, ImageOps

MAX_PIXELS = 50_000_000  # 200 MB decoded
MAX_SIDE = 1_568  # of what is sent: more than that, models scale down themselves
MAX_PNG_BYTES = 1_500_000  # a larger one is sent as JPEG
QUALITY = 85
MEMORY_BYTES = 1024 * 1024 * 1024
CPU_SECONDS = 20
# Nothing but these is tried: each decoder is a way in.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")


def main() -> None:
    """Prepare the picture on stdin; what is wrong with it is an answer, too."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        picture, data = prepare(sys.stdin.buffer.read())
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        picture, data = {"error": f"has more than {MAX_PIXELS:,} pixels"}, b""
    except MemoryError:
        picture, data = {"error": "needs too much memory"}, b""
    except Exception as error:  # noqa: BLE001 - a border: decoders raise whatever they like
        # Their words tell of addresses in memory and of nothing that a person knows.
        words = {"UnidentifiedImageError": "is no PNG, JPEG, WebP or GIF"}
        picture, data = {"error": words.get(type(error).__name__, "is damaged")}, b""
    sys.stdout.buffer.write(json.dumps(picture).encode() + b"\n" + data)


def prepare(file: bytes) -> tuple[dict[str, object], bytes]:
    """The picture as it is sent: of an animation the first frame, upright, small, without metadata."""
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS // 2  # Pillow raises at twice as many
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    with Image.open(io.BytesIO(file), formats=FORMATS) as opened:
        is_jpeg = opened.format == "JPEG"
        opened.draft(None, (MAX_SIDE, MAX_SIDE))  # JPEG is decoded at a fraction of its size
        opened.seek(0)
        picture: Image.Image = ImageOps.exif_transpose(opened)
        picture.load()
    picture = picture.convert(_mode_of(picture))
    picture.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
    data = b"" if is_jpeg else _encoded(picture, "PNG")
    kind = "PNG"
    if is_jpeg or len(data) > MAX_PNG_BYTES:
        kind, data = "JPEG", _encoded(_on_white(picture), "JPEG")
    width, height = picture.size
    return {"media_type": f"image/{kind.lower()}", "width": width, "height": height}, data


def _mode_of(picture: Image.Image) -> str:
    """Eight bits a channel, in colours that PNG and JPEG have; CMYK and 16 bits become RGB."""
    return "RGBA" if picture.has_transparency_data else "RGB"


def _on_white(picture: Image.Image) -> Image.Image:
    if picture.mode != "RGBA":
        return picture
    white = Image.new("RGB", picture.size, "white")
    white.paste(picture, mask=picture.getchannel("A"))
    return white


def _encoded(picture: Image.Image, kind: str) -> bytes:
    clean = Image.new(picture.mode, picture.size)
    clean.paste(picture)  # pixels only: no EXIF, no colour profile, no comments
    file = io.BytesIO()
    clean.save(file, kind, quality=QUALITY)
    return file.getvalue()


if __name__ == "__main__":
    main()
