"""What is made of a picture before it is sent."""

import io
import struct
import zlib
from typing import Any

import pytest
from PIL import Image

from navi.adapters.pictures.worker import MAX_SIDE, prepare


def file_of(picture: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def prepared(file: bytes) -> tuple[dict[str, object], Image.Image]:
    told, data = prepare(file)
    return told, Image.open(io.BytesIO(data))


def noise(width: int, height: int) -> Image.Image:
    return Image.effect_noise((width, height), 100).convert("RGB")


@pytest.mark.parametrize(
    ("kind", "sent"), [("PNG", "png"), ("JPEG", "jpeg"), ("WEBP", "png"), ("GIF", "png")]
)
def test_the_four_kinds_are_sent_as_png_or_jpeg(kind: str, sent: str) -> None:
    told, picture = prepared(file_of(Image.new("RGB", (40, 30), "red"), kind))

    assert told == {"media_type": f"image/{sent}", "width": 40, "height": 30}
    assert (picture.format, picture.size) == (sent.upper(), (40, 30))
    assert picture.convert("RGB").getpixel((20, 15)) == pytest.approx((255, 0, 0), abs=3)


def test_the_longer_side_is_scaled_down() -> None:
    told, picture = prepared(file_of(Image.new("RGB", (4000, 1000)), "PNG"))

    assert picture.size == (MAX_SIDE, 392)
    assert (told["width"], told["height"]) == (MAX_SIDE, 392)


def test_a_small_picture_is_not_scaled_up() -> None:
    _, picture = prepared(file_of(Image.new("RGB", (3, 5)), "PNG"))

    assert picture.size == (3, 5)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_is_turned_as_its_exif_says_and_its_metadata_stays_behind(orientation: int) -> None:
    upright = Image.new("RGB", (64, 32), "white")
    upright.paste("black", (0, 0, 16, 16))  # the corner at the upper left
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "a secret camera"
    undone = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    turned = upright.transpose(undone[orientation]) if orientation in undone else upright
    file = file_of(turned, "JPEG", exif=exif, comment=b"a secret comment", quality=95)

    _, data = prepare(file)
    picture = Image.open(io.BytesIO(data))

    assert picture.size == (64, 32)
    assert max(picture.getpixel((8, 8))) < 40  # pyright: ignore[reportArgumentType]
    assert min(picture.getpixel((56, 24))) > 215  # pyright: ignore[reportArgumentType]
    assert not picture.getexif()
    assert b"secret" not in data


@pytest.mark.parametrize("mode", ["CMYK", "L", "1", "P", "LA", "RGBA", "I;16"])
def test_whatever_its_colours_it_arrives_in_eight_bits(mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    _, picture = prepared(file_of(Image.new(mode, (20, 20)), kind))

    assert picture.mode in ("RGB", "RGBA")


def test_of_an_animation_the_first_picture_is_shown() -> None:
    frames = [Image.new("RGB", (10, 10), colour) for colour in ("red", "green", "blue")]
    file = file_of(frames[0], "GIF", save_all=True, append_images=frames[1:])

    _, picture = prepared(file)

    assert picture.convert("RGB").getpixel((5, 5)) == (255, 0, 0)


def test_a_large_png_is_sent_as_jpeg_on_white() -> None:
    picture = noise(1500, 1500)
    picture.putalpha(0)

    told, sent = prepared(file_of(picture, "PNG"))

    assert told["media_type"] == "image/jpeg"
    assert min(sent.getpixel((750, 750))) > 250  # pyright: ignore[reportArgumentType]


def png_that_claims(width: int, height: int) -> bytes:
    """A few bytes that say they are a huge picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * 1_000_000)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(Image.DecompressionBombError):
        prepare(png_that_claims(60_000, 60_000))


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"not a picture",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"\x89PNG\r\n\x1a\n" + b"\0" * 50,
        file_of(noise(50, 50), "PNG")[:2000],
        file_of(noise(50, 50), "JPEG")[:700],
        file_of(Image.new("RGB", (5, 5)), "BMP"),
        file_of(Image.new("RGB", (5, 5)), "TIFF"),
    ],
    ids=["empty", "text", "svg", "half a head", "cut png", "cut jpeg", "bmp", "tiff"],
)
def test_what_is_broken_or_of_another_kind_is_refused(file: bytes) -> None:
    with pytest.raises((OSError, SyntaxError)):
        prepare(file)
