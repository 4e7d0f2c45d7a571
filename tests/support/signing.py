"""A signer for tests: the same key in every run."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from navi.adapters.signing import Ed25519Signer


def signer_of(number: int = 1) -> Ed25519Signer:
    return Ed25519Signer(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))
