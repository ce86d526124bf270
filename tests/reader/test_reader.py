"""Dumps of every kind and state are read, and what is wrong with them is told."""

import gzip
import json
import os
import tracemalloc

import pytest
import zstandard

from verl_rollout_dump import RolloutDumpCallback
from verl_rollout_dump.analysis.check import check_dump
from verl_rollout_dump.reader import DumpReadError, index_cache, open_dump, read_rows
from verl_rollout_dump.reader.discovery import find_dumps
from verl_rollout_dump.reader.files import dump_files, step_of_name
from verl_rollout_dump.reader.index import index_file
from verl_rollout_dump.reader.lines import read_lines
from verl_rollout_dump.reader.parallel import for_files, tasks_of


def kinds(dump):
    return [(problem.kind, problem.line) for problem in dump.problems]


def test_records_in_the_order_of_steps_and_by_place(small_dump):
    dump = open_dump(small_dump)
    assert dump.steps == [1, 2, 10]
    assert len(dump) == 12
    assert [record["step"] for record in dump] == [1] * 4 + [2] * 4 + [10] * 4
    assert dump.record(10, 3)["output"] == "response 10.3"
    assert [record["output"] for record in dump.records([2])] == [f"response 2.{i}" for i in range(4)]
    assert dump.scores(1).tolist() == [0, 1, 0, 1]
    assert dump.run is None


@pytest.mark.parametrize(
    ("step", "index", "said"),
    [(3, 0, "has no step 3. Steps: 1-2,10"), (2, 4, "step 2 has 4 records, so the index is 0 to 3, not 4")],
)
def test_a_place_that_is_none(small_dump, step, index, said):
    with pytest.raises(DumpReadError, match=said):
        open_dump(small_dump).record(step, index)


@pytest.mark.parametrize(("name", "said"), [("nowhere", "does not exist"), (".", "holds no step files")])
def test_nothing_to_read(tmp_path, name, said):
    with pytest.raises(DumpReadError, match=said):
        open_dump(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "outputs", "problems"),
    [
        (b"", [], []),
        (b"\n\n", [], []),
        (b'{"output": 1}\n{"output": 2}', [1, 2], []),
        (b'{"output": 1}\n{"outp', [1], [("torn", 2)]),
        (b'{"output": 1}\r\n{"output": 2}\r\n', [1, 2], []),
        (b'\xef\xbb\xbf{"output": 1}\n', [1], []),
        (b'{"output": NaN}\n', ["nan"], []),
        (b'{"output": "a\xe2\x80\xa8b\xc2\x85c"}\n', ["a\u2028b\x85c"], []),
        (b'{"output": "a\xff"}\n', ["a\ufffd"], []),
        (b'{"output": "\\ud83d"}\n', ["\ufffd"], []),
        (b'{"output": 1}\n\x00\x01\xfe\n[1]\n"text"\n3\n{"output": 2}\n', [1, 2], [("not JSON", 2)]
         + [("not an object", line) for line in (3, 4, 5)]),
        (b"[" * 100_000 + b"\n" + b'{"output": 1}\n', [1], [("not JSON", 1)]),
        (b'{"output": 18446744073709551616}\n', ["1.8446744073709552e+19"], []),
        (b'{"output": NaN, "n": 1' + b"0" * 5000 + b"}\n", ["nan"], []),
        (b'{"output": {"$bytes": "AP8="}}\n', [b"\x00\xff"], []),
        (b'{"output": {"$marker": {"type": "x"}}}\n', [{"$marker": {"type": "x"}}], []),
    ],
)  # fmt: skip
def test_hostile_lines(write_step, content, outputs, problems):
    dump = open_dump(write_step("1.jsonl", content))
    found = [record["output"] for record in dump]
    assert [str(value) if isinstance(value, float) else value for value in found] == outputs
    assert kinds(dump) == problems
    assert len(dump) == len(outputs)
    for index, value in enumerate(outputs):
        assert str(dump.record(1, index)["output"]) == str(value)


def test_a_line_that_is_too_long_is_passed_over(write_step):
    path = (
        write_step("1.jsonl", b'{"output": 1}\n{"output": "' + b"x" * 20_000_000 + b'"}\n{"output": 2}\n') / "1.jsonl"
    )
    with path.open("rb") as file:
        lines = list(read_lines(file, longest=1000))
    assert [(line.number, line.offset, line.length, line.is_too_long) for line in lines] == [
        (1, 0, 13, False),
        (2, 14, 20_000_014, True),
        (3, 20_000_029, 13, False),
    ]
    index = index_file(dump_files(path)[0], longest_line=1000)
    assert (len(index), [problem.kind for problem in index.problems]) == (2, ["too long"])


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files(write_step, make_record, suffix):
    plain = b"".join(json.dumps(make_record(4, i)).encode() + b"\n" for i in range(5))
    packed = {".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}[suffix](plain)
    dump = open_dump(write_step(f"4.jsonl{suffix}", packed))
    assert [record["output"] for record in dump] == [f"response 4.{i}" for i in range(5)]
    assert dump.record(4, 3)["uid"] == "uid4p1_1_0"


@pytest.mark.parametrize(
    ("suffix", "content"), [(".gz", b"\x1f\x8b\x08"), (".zst", b"(\xb5/\xfdgarbage"), (".gz", b"x")]
)
def test_broken_compression_is_a_problem(write_step, suffix, content):
    assert [kind for kind, _ in kinds(open_dump(write_step(f"1.jsonl{suffix}", content)))] == ["unreadable"]


def test_a_cut_gzip_file_gives_what_is_whole(write_step, make_record):
    lines = [json.dumps(make_record(1, i, output=os.urandom(2000).hex())).encode() + b"\n" for i in range(3000)]
    packed = gzip.compress(b"".join(lines))
    dump = open_dump(write_step("1.jsonl.gz", packed[: len(packed) // 2]))
    assert 1000 < len(dump) < 2000
    assert [kind for kind, _ in kinds(dump)] == ["unreadable"]


def test_a_file_without_a_number_holds_many_steps(write_step, make_record):
    dump = open_dump(write_step("rollouts.jsonl", [make_record(step, i) for step in (3, 1, 3) for i in range(2)]))
    assert dump.steps == [1, 3]
    assert [record["step"] for record in dump.records([3])] == [3] * 4
    assert dump.record(3, 2)["output"] == "response 3.0"


def test_names():
    names = ["7.jsonl", "run-007.jsonl.gz", "completions_00007.parquet", "a.jsonl"]
    assert [step_of_name(name) for name in names] == [7, 7, 7, None]


def write_shards(tmp_path, make_record, shards=(1, 0)):
    for shard in shards:
        folder = tmp_path / "shards" / f"{shard:04}-of-0002"
        folder.mkdir(parents=True)
        records = [make_record(7, 2 * shard + i) for i in range(2)]
        (folder / "7.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
        (folder / "run.json").write_text('{"state": "complete", "attempts": []}')
    return tmp_path


def test_shards_are_one_step(tmp_path, make_record):
    dump = open_dump(write_shards(tmp_path, make_record))
    assert [record["output"] for record in dump] == [f"response 7.{i}" for i in range(4)]
    assert dump.record(7, 3)["output"] == "response 7.3"
    one, two, three, four = dump.groups(7).tolist()
    assert one == two != three == four
    assert dump.run == {"state": "complete", "attempts": []}
    assert find_dumps(tmp_path) == [tmp_path]
    assert check_dump(dump) == []


def test_a_missing_shard_is_found(tmp_path, make_record):
    (finding,) = check_dump(open_dump(write_shards(tmp_path, make_record, shards=(1,))))
    assert (finding.kind, finding.message) == ("missing part", "steps 7 lack files")


def test_groups_are_told_by_shared_uids_else_by_prompts(write_step, make_record):
    same_prompt = [make_record(1, i, input="p", uid=f"u{i // 2}") for i in range(4)]
    one, two, three, four = open_dump(write_step("1.jsonl", same_prompt)).groups(1).tolist()
    assert one == two != three == four
    lonely_uids = [make_record(2, i, uid=f"u{i}") for i in range(4)]
    one, two, three, four = open_dump(write_step("2.jsonl", lonely_uids)).groups(2).tolist()
    assert one == two != three == four


def test_trl_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    columns = {"step": [5, 5], "prompt": ["p", "p"], "completion": ["a", "b"], "reward": [0.5, 1.0]}
    pandas.DataFrame(columns).to_parquet(tmp_path / "completions_00005.parquet")
    dump = open_dump(tmp_path)
    assert dump.scores(5).tolist() == [0.5, 1.0]
    assert dump.record(5, 1) == {"step": 5, "prompt": "p", "completion": "b", "reward": 1.0}


class TestIndexCache:
    @pytest.fixture(autouse=True)
    def kept_always(self, monkeypatch, tmp_path):
        monkeypatch.setattr(index_cache, "WORTH_KEEPING", 1)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def index(self, path):
        with open_dump(path) as dump:
            dump.make_index()

    def test_kept_beside_the_dump_and_used(self, small_dump, monkeypatch):
        self.index(small_dump)
        assert [path.name for path in small_dump.iterdir() if path.suffix != ".jsonl"] == ["reader.index"]
        monkeypatch.setattr("verl_rollout_dump.reader.dump_index.index_files", None)
        assert open_dump(small_dump).record(2, 1)["output"] == "response 2.1"

    def test_a_changed_file_is_indexed_anew(self, small_dump, write_step, make_record):
        self.index(small_dump)
        write_step("2.jsonl", [make_record(2, i, output="new") for i in range(7)])
        assert open_dump(small_dump).record(2, 6)["output"] == "new"
        assert len(open_dump(small_dump)) == 15

    @pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04broken"])
    def test_a_broken_index_is_made_anew(self, small_dump, content):
        (small_dump / "reader.index").write_bytes(content)
        self.index(small_dump)
        assert open_dump(small_dump).has_index(open_dump(small_dump).files[0])

    def test_an_index_that_lies_is_told(self, small_dump):
        self.index(small_dump)
        path = small_dump / "2.jsonl"
        times = path.stat().st_atime_ns, path.stat().st_mtime_ns
        path.write_bytes(b"x" * path.stat().st_size)
        os.utime(path, ns=times)
        with pytest.raises(DumpReadError, match=r"delete .*reader\.index"):
            open_dump(small_dump).record(2, 1)

    def test_problems_are_kept(self, write_step):
        path = write_step("1.jsonl", b'{"output": 1}\n{"o')
        self.index(path)
        dump = open_dump(path)
        assert dump.has_index(dump.files[0]) and kinds(dump) == [("torn", 2)]

    def test_a_folder_that_cannot_be_written(self, small_dump, tmp_path, monkeypatch):
        monkeypatch.setattr(index_cache, "INDEX_CACHE", "1.jsonl/index")  # a file is no folder: cannot be made
        self.index(small_dump)
        (kept,) = (tmp_path / "cache" / "verl_rollout_dump").rglob("index")
        assert kept.is_file()
        assert open_dump(small_dump).has_index(open_dump(small_dump).files[0])

    def test_small_dumps_keep_none(self, small_dump, monkeypatch):
        monkeypatch.setattr(index_cache, "WORTH_KEEPING", 1 << 20)
        self.index(small_dump)
        assert not (small_dump / "reader.index").exists()


def test_thousands_of_files(tmp_path):
    for step in range(3000):
        (tmp_path / f"{step}.jsonl").write_bytes(b'{"input": "p", "output": "o", "score": %d}\n' % step)
    dump = open_dump(tmp_path)
    assert dump.steps == list(range(3000))
    assert sum(record["score"] for record in dump) == 2999 * 1500
    assert dump.record(2999, 0)["score"] == 2999


def test_memory_does_not_grow(write_step):
    line = json.dumps({"input": "p" * 1000, "output": "o" * 3000, "score": 1.0}).encode() + b"\n"
    path = write_step("1.jsonl", line * 25_000)
    tracemalloc.start()
    count = sum(1 for _ in read_rows(dump_files(path)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 25_000
    assert peak < 30 << 20  # of a file of 100 MB


def count_files(files):
    return [file.step for file in files]


def test_several_processes_give_the_same_in_order(small_dump, monkeypatch):
    monkeypatch.setattr("verl_rollout_dump.reader.parallel.WORTH_PROCESSES", 0)
    monkeypatch.setattr("verl_rollout_dump.reader.parallel.TASK_SIZE", 1)
    done = []
    with open_dump(small_dump) as dump:
        assert len(tasks_of(dump.files)) == 3
        dump.make_index(workers=2, on_progress=done.append)
        assert dump.scores(10).tolist() == [1] * 4
    assert sum(done) == dump.size
    assert list(for_files(count_files, dump.files, 1)) == [[1], [2], [10]]


def test_what_a_resume_made_void_does_not_count(tmp_path, batch):
    def attempt(steps, score):
        with RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}}) as callback:
            for step in steps:
                callback.on_rollout_end(batch(n=2, step=step, scores=[score, score]))

    attempt((1, 2, 3, 4, 5), score=0)
    attempt((3, 4), score=1)  # goes on from step 2; step 5 of the first attempt is void
    dump = open_dump(tmp_path)
    assert {step: dump.scores(step).tolist() for step in dump.steps} == {1: [0, 0], 2: [0, 0], 3: [1, 1], 4: [1, 1]}
    assert "missing step" not in {finding.kind for finding in check_dump(dump)}
