"""What we think the states of a dump are, in ten lines (`Model`), against the dump itself.

Crashes are those of a process that dies between two system calls of the dump: they leave what a kill would leave
(test_kills.py has the real ones).
"""

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
from verl_rollout_dump.storage.lineage import lineage
from verl_rollout_dump.storage.steps import parse_steps

FAULTS = {"write": "writev", "sync": "fsync", "rename": "replace"}
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # what is tested is the order of calls, not a device
CRASH_POINTS = ("before the file", "half a file", "before the name", "before run.json")


class Crash(BaseException):
    """The process is dead from here on."""


def texts_in(path):
    return [json.loads(line)["input"] for line in path.read_text().splitlines()]


class Model:
    """Attempts, each with the lowest step that it tried, and its texts by step."""

    def __init__(self):
        self.attempts = []

    def tried(self, step):
        self.attempts[-1]["first"] = min(step, self.attempts[-1]["first"])

    def wrote(self, step, text):
        self.tried(step)
        self.attempts[-1]["texts"].setdefault(step, []).append(text)

    def lineage(self):
        texts = {}
        for attempt in self.attempts:
            if attempt["texts"]:
                texts = {step: text for step, text in texts.items() if step < attempt["first"]} | attempt["texts"]
        return texts


class DumpMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.directory = Path(tempfile.mkdtemp(dir=MEMORY))
        self.model = Model()
        self.acknowledged = set()
        self.number = 0
        self.unsaid = False  # a crash put a file in place without a word: the next attempt finds out
        self.callback = None
        self.resume()

    def teardown(self):
        if getattr(self, "callback", None):
            self.callback.close()
        shutil.rmtree(getattr(self, "directory", "/nowhere"), ignore_errors=True)

    @precondition(lambda self: self.callback is None)
    @rule()
    def resume(self):
        node = {"path": {"dir": str(self.directory)}, "writer": {"mode": "inline", "fsync": True}}
        self.callback = RolloutDumpCallback.from_config(node)
        self.model.attempts.append({"first": 99, "texts": {}})
        self.unsaid, self.missing = False, set()

    def hand_over(self, step):
        self.number += 1
        text = f"text {self.number}"
        self.callback.on_rollout_end(RolloutBatch(step=step, prompts=[text], responses=["r"], scores=[1.0]))
        return text

    @precondition(lambda self: self.callback)
    @rule(step=st.integers(0, 6))
    def write(self, step):
        text = self.hand_over(step)
        self.model.tried(step)
        self.model.wrote(step, text)
        self.acknowledged.add(text)
        self.missing.discard(step)

    @precondition(lambda self: self.callback)
    @rule(step=st.integers(0, 6), fault=st.sampled_from(sorted(FAULTS)))
    def fail(self, step, fault):
        name = FAULTS[fault]
        real, is_over = getattr(os, name), []

        def fails(*args):
            is_step = name == "fsync" or (name == "replace" and str(args[0]).endswith(".jsonl.tmp"))
            if is_over or not (is_step or (name == "writev" and b'"input"' in b"".join(args[1]))):
                return real(*args)
            is_over.append(True)
            raise OSError(errno.EROFS, "refused")

        setattr(os, name, fails)
        try:
            self.hand_over(step)
        finally:
            setattr(os, name, real)
        self.model.tried(step)
        if step not in self.model.attempts[-1]["texts"]:
            self.missing.add(step)

    @precondition(lambda self: self.callback)
    @rule(step=st.integers(0, 6), point=st.sampled_from(CRASH_POINTS))
    def crash(self, step, point):
        directory = self.callback._started._splits["train"].directory
        CRASHES[CRASH_POINTS.index(point)](self, directory, step)
        directory._lock.release()  # the system does, when its owner is dead
        self.callback._started._state = "failed"  # nothing is written any more
        self.callback.close()
        self.callback = None

    def crash_before_the_file(self, directory, step):
        pass

    def crash_with_half_a_file(self, directory, step):
        (self.directory / f"{step}.jsonl.tmp").write_text('{"input": "te')

    def crash_before_the_name(self, directory, step):
        (self.directory / f"{step}.jsonl.tmp").write_text('{"input": "never had a name"}\n')

    def crash_before_run_json(self, directory, step):
        def die(report):
            raise Crash

        directory.save_record = die
        text = f"text {self.number + 1}"
        try:
            self.hand_over(step)
        except Crash:
            self.model.tried(step)
            self.model.wrote(step, text)
        self.unsaid = True

    @precondition(lambda self: self.callback)
    @rule()
    def end(self):
        self.callback.close()
        self.callback = None

    @invariant()
    def the_lineage_is_that_of_the_model(self):
        if not getattr(self, "unsaid", True):
            found = {step: texts_in(path) for step, path in lineage(self.directory).items()}
            assert found == self.model.lineage()

    @invariant()
    def nothing_acknowledged_is_lost(self):
        if hasattr(self, "directory"):
            kept = [*self.directory.glob("*.jsonl"), *self.directory.glob("superseded/*/*.jsonl*")]
            texts = {text for path in kept if ".tmp" not in path.name for text in texts_in(path)}
            assert self.acknowledged <= texts

    @invariant()
    def what_is_missing_is_on_record(self):
        if getattr(self, "callback", None) and self.missing:
            (*_, attempt) = json.loads((self.directory / "run.json").read_bytes())["attempts"]
            assert self.missing <= parse_steps(attempt["failed"])


CRASHES = (
    DumpMachine.crash_before_the_file,
    DumpMachine.crash_with_half_a_file,
    DumpMachine.crash_before_the_name,
    DumpMachine.crash_before_run_json,
)
TestDump = DumpMachine.TestCase
TestDump.settings = settings(
    max_examples=int(os.environ.get("TORTURE", "200")) // 10,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
