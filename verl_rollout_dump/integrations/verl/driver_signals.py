"""Ctrl-C and SIGTERM of a verl run: the dump is ended before Ray kills its process.

verl's trainer, and with it the dump, lives in a Ray actor. When the process that the user started (the driver) ends,
Ray kills the actor without notice, and the steps that wait to be written would be lost. So the driver handles both
signals: it asks the processes with dumps to end them as failed, waits until they have, at most `_DRAIN_SECONDS`, and
then lets the signal do what it would have done. A second signal ends the wait.

The two sides talk through Ray's key-value store, since the actor takes no calls while it trains. The keys belong to
one Ray job. A signal to the whole process group also reaches Ray's own processes, which must live until the dump is
ended; they are therefore started in process groups of their own.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from uuid import uuid4

logger = logging.getLogger(__name__)

_DRAIN_SECONDS = 24.0  # `shutdown.GRACE_SECONDS` for the steps, and the rest for `run.json`
_POLL_SECONDS = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_OPEN, _ENDED = b"open", b"ended"
_MARK = "_is_rollout_dump_init"


def watch_ray() -> None:
    """Handle the signals from the moment when Ray has started in this process, the driver."""
    ray: Any = sys.modules.get("ray")
    original = getattr(ray, "init", None)
    if original is None or getattr(original, _MARK, False):
        return

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> Any:
        with _own_process_groups():
            context = original(*args, **kwargs)
        _handle_signals()  # after Ray has set its own handler of SIGTERM
        return context

    setattr(init, _MARK, True)
    ray.init = init


def listen() -> None:
    """End the dumps of this process when the driver asks for it. Called in the process that has opened them."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        threading.Thread(target=_listen, args=(_Mailbox(),), name="verl-rollout-dump-listen", daemon=True).start()


class _Mailbox:
    """The keys of this Ray job: one for the driver's request, one for each process with dumps."""

    def __init__(self) -> None:
        import ray
        from ray.experimental import internal_kv

        self._store = internal_kv
        self._prefix = f"verl_rollout_dump/{ray.get_runtime_context().get_job_id()}/".encode()
        self._own_key = self._prefix + b"dump/" + uuid4().hex.encode()

    def ask(self) -> None:
        self._store._internal_kv_put(self._prefix + b"end", b"1")

    def is_asked(self) -> bool:
        return bool(self._store._internal_kv_exists(self._prefix + b"end"))

    def report(self, state: bytes) -> None:
        self._store._internal_kv_put(self._own_key, state)

    def are_all_ended(self) -> bool:
        keys = self._store._internal_kv_list(self._prefix + b"dump/")
        return all(self._store._internal_kv_get(key) == _ENDED for key in keys)


def _listen(mailbox: _Mailbox) -> None:
    from verl_rollout_dump.dump.shutdown import open_dumps

    try:
        mailbox.report(_OPEN)
        while len(open_dumps) and not mailbox.is_asked():
            time.sleep(_POLL_SECONDS)
        open_dumps.end_failed()
        mailbox.report(_ENDED)
    except Exception as error:  # Ray has ended: its key-value store is gone
        logger.info("the driver cannot be listened to any more: %s", error)


class _DrainFirst:
    """A signal handler that ends the dumps and then hands the signal on to the handler that was there before."""

    def __init__(self, previous: Any) -> None:
        self.previous: Any = previous.previous if isinstance(previous, _DrainFirst) else previous

    def __call__(self, number: int, frame: FrameType | None) -> None:
        for each in _SIGNALS:  # a second signal ends the wait
            handler = signal.getsignal(each)
            if isinstance(handler, _DrainFirst):
                signal.signal(each, handler.previous)
        _drain(signal.Signals(number).name)
        if callable(self.previous):
            self.previous(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


def _handle_signals() -> None:
    """Install the handlers, except over a handler that ignores its signal or was set by C code (None)."""
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, _DrainFirst(handler))


def _drain(name: str) -> None:
    """Ask all processes with dumps to end them, and wait for that, for at most `_DRAIN_SECONDS`."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return
    done = threading.Event()
    # Another thread, since the signal may have interrupted this one in the middle of a call to Ray.
    threading.Thread(target=_ask, args=(done,), name="verl-rollout-dump-drain", daemon=True).start()
    _say(f"{name}: writing the rollouts that wait, for up to {_DRAIN_SECONDS:.0f} s; a second signal ends at once")
    if done.wait(_DRAIN_SECONDS):
        _say("the dump is ended")
    else:
        _say(f"the dump did not end within {_DRAIN_SECONDS:.0f} s; `verl-rollout-dump check DIR` names missing steps")


def _ask(done: threading.Event) -> None:
    try:
        mailbox = _Mailbox()
        mailbox.ask()
        while not mailbox.are_all_ended():
            time.sleep(_POLL_SECONDS / 5)
        done.set()
    except Exception as error:
        logger.warning("the dump cannot be asked to end: %s", error)


def _say(message: str) -> None:
    print(f"verl_rollout_dump: {message}", file=sys.stderr, flush=True)


@contextmanager
def _own_process_groups() -> Iterator[None]:
    """Let Ray start its processes in process groups of their own. A Ray that starts them otherwise is left alone.

    They still end with this process: Ray binds them to it by the kernel (PR_SET_PDEATHSIG) or a reaper process.
    """
    services = sys.modules.get("ray._private.services")
    original: Any = getattr(services, "ConsolePopen", None)
    if original is None:
        yield
        return

    class OwnGroup(original):  # type: ignore[misc]
        def __init__(self, *args: Any, preexec_fn: Any = None, **kwargs: Any) -> None:
            def start_group() -> None:
                os.setpgid(0, 0)
                if preexec_fn is not None:
                    preexec_fn()

            super().__init__(*args, preexec_fn=start_group, **kwargs)

    services.ConsolePopen = OwnGroup  # type: ignore[union-attr]
    try:
        yield
    finally:
        services.ConsolePopen = original  # type: ignore[union-attr]
