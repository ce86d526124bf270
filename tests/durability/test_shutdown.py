"""Every way in which a process ends: what was handed over before is in files."""

import json
import os
import pickle
import signal
import time

import pytest

from verl_rollout_dump import DumpError

SLOW = """
from verl_rollout_dump.storage import atomic_files as writer
real = writer.write_all
def slow(descriptor, pieces):
    time.sleep(0.1)
    return real(descriptor, pieces)
writer.write_all = slow
"""
THREE_STEPS = """
callback = open_dump()
for step in (1, 2, 3):
    callback.on_rollout_end(batch(step))
"""


def steps_of(directory):
    for path in directory.glob("*.jsonl"):
        json.loads(path.read_text())
    return sorted(int(path.stem) for path in directory.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("end", "code", "state"),
    [
        ("", 0, "complete"),
        ("raise ValueError", 1, "failed"),
        ("sys.exit(3)", 3, "complete"),
        ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, "failed"),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, "failed"),
    ],
)
def test_the_last_step_is_there_although_nobody_closed(run_script, tmp_path, attempts_of, end, code, state):
    done = run_script(SLOW + THREE_STEPS + end)
    assert done.returncode == code, done.err
    assert steps_of(tmp_path / "dump") == [1, 2, 3]
    (attempt,) = attempts_of(tmp_path / "dump")
    assert (attempt["state"], attempt["steps"]) == (state, "1-3")


def test_a_sigterm_from_outside_while_the_training_computes(start_script, tmp_path, attempts_of):
    process = start_script(SLOW + THREE_STEPS + "print('go', flush=True)\nwhile True: sum(range(1000))")
    assert process.stdout.readline() == "go\n"
    process.terminate()
    assert process.wait(timeout=30) == -signal.SIGTERM
    assert steps_of(tmp_path / "dump") == [1, 2, 3]
    assert attempts_of(tmp_path / "dump")[0]["state"] == "failed"


def test_a_sigterm_while_the_training_waits_for_room_in_the_queue(start_script, tmp_path):
    script = """
        callback = open_dump(writer={"max_pending": 1})
        print("go", flush=True)
        for step in range(1, 1000):
            callback.on_rollout_end(batch(step))
    """
    slow_from_first = SLOW.replace("0.1", "0.2")
    process = start_script(slow_from_first + "\n" + __import__("textwrap").dedent(script))
    assert process.stdout.readline() == "go\n"
    time.sleep(0.5)
    process.terminate()
    assert process.wait(timeout=30) == -signal.SIGTERM
    steps = steps_of(tmp_path / "dump")
    assert len(steps) >= 2 and steps == list(range(1, len(steps) + 1))


def test_a_handler_that_was_there_before_is_called_and_decides(run_script, tmp_path, attempts_of):
    done = run_script(
        SLOW
        + "signal.signal(signal.SIGTERM, lambda *a: print('mine', sorted(os.listdir(DUMP))[0:3]))\n"
        + THREE_STEPS
        + """
os.kill(os.getpid(), signal.SIGTERM)
callback.on_rollout_end(batch(4))    # the training goes on
callback.close()
print(signal.getsignal(signal.SIGTERM).__name__)
        """
    )
    assert done.returncode == 0, done.err
    assert done.out == "mine ['1.jsonl', '2.jsonl', '3.jsonl']\n<lambda>\n"
    assert attempts_of(tmp_path / "dump")[0]["steps"] == "1-4"


@pytest.mark.parametrize("handler", ["lambda *a: sys.exit(7)", "signal.SIG_IGN"])
def test_a_handler_that_is_set_later_takes_our_place(run_script, tmp_path, handler):
    done = run_script(
        SLOW + THREE_STEPS + f"signal.signal(signal.SIGTERM, {handler})\nos.kill(os.getpid(), signal.SIGTERM)"
    )
    assert done.returncode == (7 if "exit" in handler else 0), done.err
    assert steps_of(tmp_path / "dump") == [1, 2, 3]


def test_our_handler_is_gone_with_the_last_dump(run_script):
    done = run_script("open_dump().close()\nprint(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)")
    assert done.out == "True\n", done.err


def test_a_forked_child_writes_nothing_and_holds_no_lock(run_script, tmp_path, attempts_of):
    done = run_script(
        SLOW
        + THREE_STEPS
        + """
child = os.fork()
if child == 0:
    callback.on_rollout_end(batch(9))    # refused, and said
    callback.flush()
    callback.close()
    print("child", callback._started._pid != os.getpid(), flush=True)
    time.sleep(2)                        # lives longer than the parent's dump
    sys.exit(0)                          # with atexit
callback.on_rollout_end(batch(4))
callback.close()
open_dump().close()                      # the lock is free although the child lives
os.waitpid(child, 0)
print("parent", callback.report.steps_written)
        """
    )
    assert done.returncode == 0, done.err
    assert done.out == "child True\nparent 4\n"
    assert "step 9 is not dumped: this process was forked from pid" in done.err
    assert steps_of(tmp_path / "dump") == [1, 2, 3, 4]
    assert [attempt["state"] for attempt in attempts_of(tmp_path / "dump")] == ["complete", "complete"]


def test_children_of_multiprocessing_end_as_usual(run_script, tmp_path):
    done = run_script(
        THREE_STEPS
        + """
import multiprocessing
context = multiprocessing.get_context("fork")
child = context.Process(target=time.sleep, args=(60,))
child.start()
time.sleep(0.2)
child.terminate()                        # SIGTERM, with our handler inherited
child.join(10)
print(child.exitcode)
        """
    )
    assert (done.returncode, done.out) == (0, "-15\n"), done.err
    assert steps_of(tmp_path / "dump") == [1, 2, 3]


def test_a_child_may_have_a_dump_of_its_own(run_script, tmp_path):
    done = run_script(
        THREE_STEPS
        + """
child = os.fork()
if child == 0:
    DUMP += "-child"
    callback = open_dump()
    callback.on_rollout_end(batch(1))
    sys.exit(0)                          # nobody closes it
print(os.waitpid(child, 0)[1])
        """
    )
    assert (done.returncode, done.out) == (0, "0\n"), done.err
    assert steps_of(tmp_path / "dump") == [1, 2, 3] and steps_of(tmp_path / "dump-child") == [1]


def test_a_callback_travels_without_its_thread_and_files(tmp_path, open_dump, batch, attempts_of):
    callback = open_dump()
    callback.on_rollout_end(batch(step=1))
    travelled = pickle.loads(pickle.dumps(callback))
    assert travelled.report.steps_written == 0
    travelled.close()  # it never began
    with pytest.raises(DumpError, match=f"another run is writing to .*pid {os.getpid()}, since 20"):
        travelled.on_rollout_end(batch(step=2))
    callback.close()
    travelled.on_rollout_end(batch(step=2))
    travelled.close()
    assert [attempt["steps"] for attempt in attempts_of(tmp_path / "dump")] == ["1", "2"]


def test_no_wait_is_without_an_end(run_script, tmp_path, attempts_of):
    done = run_script(
        """
        from verl_rollout_dump.storage import atomic_files as writer
        callback = open_dump(writer={"timeout_seconds": 1, "max_pending": 1})
        real = writer.write_all
        def hang(descriptor, pieces):
            if b"hang" in b"".join(pieces):
                time.sleep(1000)
            return real(descriptor, pieces)
        writer.write_all = hang
        for step in (1, 2, 3):
            callback.on_rollout_end(batch(step, "hang"))    # the third finds no room, and waits for a second
        callback.flush()                                     # another
        callback.close()                                     # and one more
        print(callback.report.steps_failed, callback.report.seconds_blocked >= 1)
        """
    )
    assert done.returncode == 0, done.err
    assert done.out == "[1, 2, 3] True\n"
    assert "waited 1 s for room in the queue of rollouts; the disk is too slow, or hangs" in done.err
    assert "waited 1 s for 2 steps to be written" in done.err
    (attempt,) = attempts_of(tmp_path / "dump")
    assert (attempt["steps"], attempt["failed"]) == ("", "1-3")
