"""A dump is followed while it is written, whoever writes it and however."""

import json
import os

from verl_rollout_dump.reader import Follower, follow


def outputs(rows):
    return [(row.step, row.index, row.record["output"]) for row in rows]


def line(output):
    return json.dumps({"output": output}).encode() + b"\n"


def test_lines_come_when_they_are_whole(tmp_path):
    follower = Follower(tmp_path / "dump")
    assert outputs(follower.poll()) == []  # the folder is not there yet
    (tmp_path / "dump").mkdir()
    path = tmp_path / "dump" / "1.jsonl"
    with path.open("ab", buffering=0) as file:
        file.write(line("a") + line("b")[:5])
        assert outputs(follower.poll()) == [(1, 0, "a")]
        assert outputs(follower.poll()) == []
        file.write(line("b")[5:])
        assert outputs(follower.poll()) == [(1, 1, "b")]
    (tmp_path / "dump" / "2.jsonl").write_bytes(line("c"))
    assert outputs(follower.poll()) == [(2, 0, "c")]


def test_a_replaced_file_is_read_anew(tmp_path):
    path = tmp_path / "1.jsonl"
    path.write_bytes(line("old") * 3)
    follower = Follower(tmp_path)
    follower.skip_existing()
    (tmp_path / "new").write_bytes(line("x") * 3)
    os.replace(tmp_path / "new", path)
    assert outputs(follower.poll()) == [(1, i, "x") for i in range(3)]
    path.write_bytes(line("y"))  # cut in place
    assert outputs(follower.poll()) == [(1, 0, "y")]


def test_follow_goes_on(tmp_path):
    (tmp_path / "1.jsonl").write_bytes(line("a"))
    rows = follow(tmp_path, seconds=0.01)
    assert next(rows).record == {"output": "a"}
    (tmp_path / "2.jsonl").write_bytes(line("b"))
    assert next(rows).step == 2
