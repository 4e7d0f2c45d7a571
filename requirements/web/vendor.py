"""Copy the locked packages of the page into ``navi/http/static/vendor`` (``make vendor``, needs npm).

The page is served as it stands, without a build, and its Content-Security-Policy allows no inline
import map. So the bare names that a package imports another one by are replaced by paths; nothing else
of a file is changed, and the manifest has the hash of what upstream ships beside the hash of ours.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent
VENDOR = HERE.parent.parent / "navi" / "http" / "static" / "vendor"
INSTALL_SECONDS = 300.0

LANGUAGES = (
    *("bash", "c", "cpp", "css", "diff", "dockerfile", "go", "ini", "java", "javascript", "json"),
    *("makefile", "markdown", "plaintext", "python", "rust", "sql", "typescript", "xml", "yaml"),
)
MODULES = {
    "preact.js": "preact/dist/preact.mjs",
    "hooks.js": "preact/hooks/dist/hooks.mjs",
    "signals-core.js": "@preact/signals-core/dist/signals-core.mjs",
    "signals.js": "@preact/signals/dist/signals.mjs",
    "htm.js": "htm/dist/htm.mjs",
    "marked.js": "marked/lib/marked.esm.js",
    "highlight/core.js": "@highlightjs/cdn-assets/es/core.min.js",
} | {
    f"highlight/{name}.js": f"@highlightjs/cdn-assets/es/languages/{name}.min.js"
    for name in LANGUAGES
}
PATHS = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
_BARE = re.compile(rf"""(from\s*|import\s*)(["'])({"|".join(map(re.escape, PATHS))})\2""")
_SOURCE_MAP = re.compile(rb"\n?//# sourceMappingURL=.*\n?")


def main() -> int:
    """Install what the lock names into a directory of its own, and copy the modules and licences."""
    with tempfile.TemporaryDirectory() as directory:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, directory)
        subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=directory,
            timeout=INSTALL_SECONDS,
            check=True,
        )
        packages = Path(directory, "node_modules")
        if VENDOR.exists():
            shutil.rmtree(VENDOR)
        entries = [_copy(packages, ours, theirs) for ours, theirs in sorted(MODULES.items())]
    manifest = json.dumps({"modules": entries}, indent=1)
    (VENDOR / "MANIFEST.json").write_text(manifest + "\n")
    return 0


def _copy(packages: Path, ours: str, theirs: str) -> dict[str, str]:
    parts = theirs.split("/")
    name = "/".join(parts[: 2 if theirs.startswith("@") else 1])
    package = json.loads((packages / name / "package.json").read_text())
    original = (packages / theirs).read_bytes()
    text = _SOURCE_MAP.sub(b"\n", original).decode()
    content = _BARE.sub(lambda found: f'{found[1]}"{PATHS[found[3]]}"', text).encode()
    place = VENDOR / ours
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    licence = VENDOR / "licences" / f"{name.replace('/', '-').lstrip('@')}.txt"
    licence.parent.mkdir(exist_ok=True)
    shutil.copy(packages / name / "LICENSE", licence)
    return {
        "file": ours,
        "package": name,
        "version": package["version"],
        "licence": package["license"],
        "upstream": theirs,
        "upstream_sha256": sha256(original).hexdigest(),
        "sha256": sha256(content).hexdigest(),
    }


if __name__ == "__main__":
    sys.exit(main())
