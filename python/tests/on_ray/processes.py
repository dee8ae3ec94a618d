"""Processes of a cluster, to be killed."""

import os
import pathlib

__all__ = ["descendants"]


def descendants(names, of=None):
    """Processes below one, this one unless given, whose command line begins with one of the names."""
    parents, commands = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            commands[int(path.name)] = (path / "cmdline").read_bytes().decode(errors="replace")
        except (OSError, IndexError):
            continue

    def is_own(pid):
        while pid in parents:
            pid = parents[pid]
            if pid == (of or os.getpid()):
                return True
        return False

    return [pid for pid, command in commands.items() if command.startswith(tuple(names)) and is_own(pid)]
