"""Ed25519 signatures: the key of a data directory, and trusted public keys.

``keys/ed25519.pem`` holds the private key, readable by its owner only. ``keys/known/*.pub`` hold the
public keys of others, one a file, as hex.
"""

import os
import re
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from msgspec import Struct

from navi.domain.vocabulary.errors import BadInput

KEY_FILE = "ed25519.pem"
KNOWN = "known"

_PUBLIC_KEY = re.compile(r"[0-9a-f]{64}")


class Ed25519Signer:
    """``Signer`` with a private key in memory."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._public_key = key.public_key().public_bytes_raw().hex()

    @property
    def public_key(self) -> str:
        return self._public_key

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


class KnownKey(Struct, frozen=True, kw_only=True):
    """A trusted public key, and the name of its file."""

    name: str
    public_key: str


def open_signer(keys_dir: Path) -> Ed25519Signer:
    """The signer of a data directory; its key is made where there is none.

    Raises:
        BadInput: what stands there is no such key.
    """
    path = keys_dir / KEY_FILE
    if not path.exists():
        _make_key(path)
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise BadInput(str(path), "is not an Ed25519 key in PEM") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput(str(path), "is a key of another kind than Ed25519")
    return Ed25519Signer(key)


def known_keys(keys_dir: Path) -> tuple[KnownKey, ...]:
    """The keys of others that are trusted, by name.

    Raises:
        BadInput: a file does not hold one.
    """
    found: list[KnownKey] = []
    for path in sorted((keys_dir / KNOWN).glob("*.pub")):
        public_key = path.read_text("utf-8", "replace").strip()
        if _PUBLIC_KEY.fullmatch(public_key) is None:
            raise BadInput(str(path), "does not hold a public key: 64 hex digits in lower case")
        found.append(KnownKey(name=path.stem, public_key=public_key))
    return tuple(found)


def verify_signature(public_key: str, signature: bytes, message: bytes) -> bool:
    """Whether the message was signed with the private key that belongs to ``public_key`` (hex)."""
    if _PUBLIC_KEY.fullmatch(public_key) is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _make_key(path: Path) -> None:
    """Write a new key whole or not at all; where another process was faster, its key stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    (path.parent / KNOWN).mkdir(mode=0o700, exist_ok=True)
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    draft = path.with_name(f"{KEY_FILE}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
