"""Make the keys that clients sign in to NATS with."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from navi.domain.accounts.nats_logins import nkey_seed, public_nkey


def new_nkey() -> tuple[str, str]:
    """A new user key: the seed, which is the secret, and the public part."""
    key = Ed25519PrivateKey.generate()
    seed = nkey_seed(key.private_bytes_raw())
    return seed, public_nkey(key.public_key().public_bytes_raw())
