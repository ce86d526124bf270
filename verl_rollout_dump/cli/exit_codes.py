"""The exit codes of all commands; the same table stands in docs/reading.md and in `--help`."""

from __future__ import annotations

DONE = 0
WRONG = 1
MISTAKE = 2
NOTHING_FOUND = 3
INTERRUPTED = 130

MEANINGS = {
    DONE: "done",
    WRONG: "something is wrong with the dump (`check`), or a dump would not work (`doctor`); "
    "or the reader of the output closed the pipe",
    MISTAKE: "the command could not be carried out: a wrong option, no dump, a missing package",
    NOTHING_FOUND: "the dump is readable, and has nothing of what was asked for",
    INTERRUPTED: "ended by Ctrl-C",
}


def epilog() -> str:
    """Return the table for `--help`, one paragraph a line."""
    return "Exit codes:\n\n" + "\n\n".join(f"{code}: {meaning}." for code, meaning in MEANINGS.items())
