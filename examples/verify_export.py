"""Check a navi export without navi: python verify_export.py FILE. The format stands in docs/audit.md.

Needs nothing but Python; where the package `cryptography` is there, the signature is checked, too.
"""

import json
import sys
from hashlib import sha256
from pathlib import Path

LINK = ("session_id", "seq", "id", "type", "v", "at", "turn_id", "subagent_id")
DELTAS = ("text_delta", "thinking_delta", "tool_output_delta")


def require(holds: bool, *what: object) -> None:
    """End the program where something does not hold."""
    if not holds:
        sys.exit(f"does not hold: {' '.join(map(str, what))}")


if len(sys.argv) != 2:
    sys.exit("usage: python verify_export.py FILE")
try:
    first, *lines, last = Path(sys.argv[1]).read_bytes().splitlines(keepends=True)
    header, end = json.loads(first), json.loads(last)
except (OSError, ValueError) as error:
    sys.exit(f"not a whole export: {error}")
sessions = {session["session_id"]: session for session in header["sessions"]}
links = {(None, 0): bytes(32)}  # hashes by session and seq

for line in lines:
    event = json.loads(line)
    name, seq = event["session_id"], event["seq"]
    begins = seq == sessions[name]["first_seq"]
    origin = sessions[name]["forked_from"] or {"session_id": None}
    previous = links.get((origin["session_id"] if begins else name, seq - 1), b"")
    require(previous != b"", name, "seq", seq, "has nothing before it")
    texts = [str("" if event[key] is None else event[key]).encode() for key in LINK]
    head = b"".join(b"%d:%b," % (len(text), text) for text in texts)
    links[name, seq] = sha256(previous + head + bytes.fromhex(event["digest"])).digest()
    require(links[name, seq].hex() == event["hash"], name, "seq", seq, "hash")
    data = line[line.index(b'"data":') + 7 : line.rindex(b',"salt":')]
    if event["salt"] and not (event["type"] in DELTAS and event["data"].get("pruned")):
        digest = sha256(bytes.fromhex(event["salt"]) + data).hexdigest()
        require(digest == event["digest"], name, "seq", seq, "data")

for name, session in sessions.items():
    head = links.get((name, session["last_seq"]), b"")
    require(head.hex() == session["hash"], name, "ends elsewhere")
for name, text in header["texts"].items():
    require(sha256(text.encode()).hexdigest() == name, "text", name)
require(end["sha256"] == sha256(first + b"".join(lines)).hexdigest(), "bytes")

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    print("there is no package `cryptography`: the signature was not checked", file=sys.stderr)
else:
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(header["public_key"]))
    key.verify(bytes.fromhex(end["signature"]), b"navi_export:1:" + end["sha256"].encode())
print("all holds; signed by", header["public_key"])
