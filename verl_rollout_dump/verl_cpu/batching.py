"""Collect requests that arrive at the same time into one batch, and run one batch at a time in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

_RequestT = TypeVar("_RequestT")
_ResponseT = TypeVar("_ResponseT")

# A batch starts when no request has arrived for this long. verl's agent loop sends its requests within a few
# milliseconds of each other, and generating one token takes longer than this.
_SETTLE_SECONDS = 0.02


class _Gate:
    """A gate that is open unless somebody holds it closed. Several may, each for its own reason."""

    def __init__(self) -> None:
        self._reasons: set[str] = set()
        self._open = asyncio.Event()
        self._open.set()

    def close(self, reason: str) -> None:
        """Close the gate until `open(reason)`."""
        self._reasons.add(reason)
        self._open.clear()

    def open(self, reason: str) -> None:
        """Remove one reason; the gate opens when no reason is left."""
        self._reasons.discard(reason)
        if not self._reasons:
            self._open.set()

    async def passed(self) -> None:
        """Wait until the gate is open."""
        while self._reasons:
            await self._open.wait()


class BatchQueue(Generic[_RequestT, _ResponseT]):
    """`await submit(request)` returns the response. Requests wait while a batch runs or the gate is closed.

    All methods are called in one event loop; `run` is called in a thread, never twice at the same time.
    """

    def __init__(self, run: Callable[[list[_RequestT]], Sequence[_ResponseT]], max_batch: int) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch={max_batch}: expected at least 1 (actor_rollout_ref.rollout.max_num_seqs).")
        self.gate = _Gate()
        self._run = run
        self._max_batch = max_batch
        self._waiting: list[tuple[_RequestT, asyncio.Future[_ResponseT]]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop_task: asyncio.Task[None] | None = None

    async def submit(self, request: _RequestT) -> _ResponseT:
        """Queue a request and wait for its response; raises what `run` raised."""
        future: asyncio.Future[_ResponseT] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._loop_task is None or self._loop_task.done():
            self._loop_task = asyncio.create_task(self._run_batches())
        return await future

    async def idle(self) -> None:
        """Wait until no batch is running."""
        await self._idle.wait()

    def answer_waiting(self, response: Callable[[], _ResponseT]) -> None:
        """Answer every request that still waits with this response."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_result(response())

    async def _run_batches(self) -> None:
        while self._waiting:
            await self._settle()
            await self.gate.passed()
            batch, self._waiting = self._waiting[: self._max_batch], self._waiting[self._max_batch :]
            if batch:
                await self._run_batch(batch)

    async def _settle(self) -> None:
        seen = -1
        while seen < len(self._waiting) < self._max_batch:
            seen = len(self._waiting)
            await asyncio.sleep(_SETTLE_SECONDS)

    async def _run_batch(self, batch: list[tuple[_RequestT, asyncio.Future[_ResponseT]]]) -> None:
        self._idle.clear()
        try:
            responses = await asyncio.to_thread(self._run, [request for request, _ in batch])
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        else:
            for (_, future), response in zip(batch, responses, strict=True):
                if not future.done():
                    future.set_result(response)
        finally:
            self._idle.set()
