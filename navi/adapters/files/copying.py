"""Copy a workspace for a fork, while the original may be in use."""

from pathlib import Path

from navi.adapters.tools.workspace import MAX_DEPTH, MAX_ENTRIES, PathForbidden, Workspace

MAX_BYTES = 1024 * 1024 * 1024  # as much as a workspace with kept outputs may hold


def copy_workspace(origin: Path, to: Path, *, max_bytes: int = MAX_BYTES) -> int:
    """Copy the files and directories of one workspace into an empty one; blocks.

    Left out are links, pipes and devices, what cannot be read or written, and what is beyond the
    bounds in bytes, entries and depth.

    Returns:
        How many entries were left out, as far as they were seen.
    """
    left_out = seen = copied = 0
    waiting = [("", 0)]
    with Workspace(origin) as source, Workspace(to) as target:
        while waiting:
            directory, depth = waiting.pop()
            try:
                listing = source.listing(directory)
            except (PathForbidden, OSError):
                left_out += 1  # swapped or removed meanwhile
                continue
            left_out += listing.more
            for entry in listing.entries:
                seen += 1
                fits = seen <= MAX_ENTRIES and copied + entry.size <= max_bytes
                try:
                    if entry.kind == "directory" and fits and depth < MAX_DEPTH:
                        target.make_directory(entry.path)
                        waiting.append((entry.path, depth + 1))
                    elif entry.kind == "file" and fits:
                        target.take(entry.path, source.open_file(entry.path))
                        copied += entry.size
                    else:
                        left_out += 1
                except (PathForbidden, OSError):
                    left_out += 1
    return left_out
