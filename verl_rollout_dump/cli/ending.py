"""How the command ends when a user stops it: without a traceback, whenever that is.

- The first Ctrl-C interrupts the command, which removes its temporary files and ends its processes. A second one ends
  the process at once.
- An interrupted process ends by the signal itself, as shells expect: the exit code is 130, and a loop of the shell
  ends.
- A reader that closes the pipe (`| head`) ends the command with exit code 1; output that cannot be written with 2.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from verl_rollout_dump.cli.exit_codes import INTERRUPTED, MISTAKE, WRONG

# Python's process that removes semaphores would name those of a process that a second Ctrl-C ended.
_LEAKS = "ignore:resource_tracker:UserWarning"


def run_quietly(command: Callable[[], None]) -> None:
    """Run a command to its end, or to the user's."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # else a shell has started the command in the background
        interrupts.install()
    code: Any = None
    try:
        command()
    except SystemExit as ending:
        code = ending.code
    except OSError as error:
        code = _report(error)
    except BaseException:
        if not interrupts.happened:
            raise
    if interrupts.happened:
        code = INTERRUPTED
    sys.exit(_flush_output() or code)


class _Interrupts:
    """The handler of SIGINT. `happened` is whether the user pressed Ctrl-C."""

    def __init__(self) -> None:
        self.happened = False

    def install(self) -> None:
        """Install the handler, and end the process by the signal at its very end."""
        atexit.register(self._end_by_signal)  # first registered, so called last
        sys.unraisablehook = self._end_or_report
        sys.warnoptions.append(_LEAKS)
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Interrupt what runs; the next signal ends the process at once."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self.happened = True
        raise KeyboardInterrupt

    def _end_or_report(self, unraisable: Any) -> None:
        """End the process if the interrupt came where Python drops exceptions, such as in a finalizer."""
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            self._end_by_signal()
        sys.__unraisablehook__(unraisable)

    def _end_by_signal(self) -> None:
        if self.happened:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)


interrupts = _Interrupts()


def _flush_output() -> int:
    """Write what is left in the buffers of the standard streams; return the exit code if that fails, else 0."""
    code = 0
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # closed by the shell: `>&-`
            continue
        try:
            stream.flush()
        except BrokenPipeError:
            code = WRONG
            _discard(stream)
        except OSError as error:
            _discard(stream)
            code = _report(error)
    return code


def _discard(stream: Any) -> None:
    """Send what is still in the buffer of a stream to nowhere: Python would try again at its end, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _report(error: OSError) -> int:
    """Say in one line that the system refused something; return the exit code."""
    print(f"verl-rollout-dump: {error}", file=sys.stderr)
    return MISTAKE
