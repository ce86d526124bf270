"""The way of a batch from the call to the file."""

import json
import logging
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from verl_rollout_dump import BatchError, ConfigError, DumpError, RolloutBatch, RolloutCallback, RolloutDumpCallback
from verl_rollout_dump.hooks import RolloutHooks


class Letters:
    """A tokenizer of the letters a to z; 0 is its padding, a special token."""

    def decode(self, ids, skip_special_tokens=True):
        return "".join("" if i == 0 and skip_special_tokens else chr(96 + i) if i else "_" for i in map(int, ids))

    def batch_decode(self, rows, skip_special_tokens=True):
        return [self.decode(row, skip_special_tokens) for row in rows]


def test_the_twenty_lines_of_the_readme(tmp_path, read_strict):
    batch = RolloutBatch(
        step=7,
        prompts=["2+2="],
        responses=["4"],
        scores=[1.0],
        ground_truths=["4"],
        extras={"acc": np.array([True])},
        split="train",
    )
    callback = RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path / "out")}}, tokenizer=None)
    callback.on_rollout_end(batch)
    callback.flush()
    assert read_strict(tmp_path / "out/7.jsonl") == [
        {"input": "2+2=", "output": "4", "gts": "4", "score": 1.0, "step": 7, "acc": True}
    ]
    assert callback.report.written == 1 and callback.report.failed == 0
    callback.close()
    callback.close()
    assert json.loads((tmp_path / "out/run.json").read_bytes())["state"] == "complete"


@pytest.mark.parametrize("mode", ["background", "inline"])
def test_the_bytes_of_a_line(tmp_path, batch, mode):
    with RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}, "writer": {"mode": mode}}) as callback:
        callback.on_rollout_end(batch(n=1, prompts=["中\u2028\x85"], extras={"n": [np.int64(3)]}))
    expected = '{"input":"中\\u2028\\u0085","output":"o0","gts":"g","score":0.0,"step":7,"n":3}\n'
    assert (tmp_path / "7.jsonl").read_bytes() == expected.encode()
    assert callback.report.bytes_written == len(expected.encode())


def test_token_ids_become_text(dump):
    ids = np.array([[0, 0, 1, 2], [0, 3, 4, 5], [9, 9, 9, 9]])
    records, _ = dump(prompts=ids, responses=ids[:, ::-1], response_mask=ids[:, ::-1], tokenizer=Letters())
    assert [(r["input"], r["output"]) for r in records] == [("ab", "ba"), ("cde", "edc"), ("iiii", "iiii")]


def test_special_tokens_are_kept_by_option(dump):
    ids = np.array([[0, 1, 0, 2]])
    config = {"writer": {"skip_special_tokens": False}}
    records, _ = dump(n=1, prompts=ids, responses=ids, tokenizer=Letters(), config=config)
    assert (records[0]["input"], records[0]["output"]) == ("_a_b", "_a_b")


def test_a_row_without_real_tokens_is_written(dump):
    # verl-project/verl#6375: only what made a copy can tell that it is one, never its mask
    ids = np.array([[1, 2], [3, 0], [4, 4]])
    mask = np.array([[1, 1], [1, 0], [0, 0]])
    records, report = dump({"acc": [1, 2, 3]}, responses=ids, response_mask=mask, tokenizer=Letters(), padding_rows=2)
    assert [(r["output"], r["acc"]) for r in records] == [("ab", 1), ("c", 2), ("", 3)]
    assert (report.padding_rows, report.written) == (2, 3)


def test_a_mask_made_for_the_loss_does_not_cut_tool_output(dump):
    ids = np.array([[1, 2, 3, 4, 0]])
    records, _ = dump(n=1, responses=ids, response_mask=np.array([[1, 0, 0, 1, 0]]), tokenizer=Letters())
    assert records[0]["output"] == "abcd"


def test_tokens_are_written_as_numbers(dump):
    ids = np.array([[0, 1, 2], [3, 4, 0]])
    records, report = dump(
        n=2,
        prompts=ids,
        responses=ids,
        prompt_mask=ids,
        response_mask=ids,
        log_probs=np.array([[0, -0.1, np.nan], [-0.5, -1, 0]], dtype=np.float32),
        tokenizer=Letters(),
        config={"fields": {"tokens": True, "include": ["output", "*_ids", "rollout_log_probs"]}},
    )
    assert records == [
        {"output": "ab", "prompt_ids": [1, 2], "response_ids": [1, 2], "rollout_log_probs": [-0.1, None]},
        {"output": "cd", "prompt_ids": [3, 4], "response_ids": [3, 4], "rollout_log_probs": [-0.5, -1.0]},
    ]
    assert [(c["field"], c["count"]) for c in report.conversions if "finite" in c["rule"]] == [("rollout_log_probs", 1)]


class LettersOnly(Letters):
    """Refuses what is no letter, as a Rust tokenizer refuses -100."""

    def decode(self, ids, skip_special_tokens=True):
        if min(ids) < 0:
            raise OverflowError("out of range")
        return super().decode(ids, skip_special_tokens)


def test_ids_that_the_tokenizer_refuses_are_counted_and_told_once(dump, caplog):
    ids = np.array([[1, 2], [3, -100], [-100, -100]])
    records, report = dump(responses=ids, tokenizer=LettersOnly())
    assert [record["output"] for record in records] == ["ab", "c<|id=-100|>", "<|id=-100|><|id=-100|>"]
    (entry,) = report.conversions
    assert (entry["field"], entry["rule"], entry["count"], entry["lossy"]) == ("output", "refused_id", 3, True)
    (told,) = [record.message for record in caplog.records if "refused_id" in record.message]
    assert "field 'output': 3 x token id" in told


def test_token_ids_without_a_tokenizer_say_what_to_do(dump):
    ids = np.array([[1, 2]])
    with pytest.raises(DumpError, match=r"there is no tokenizer. Give one: RolloutDumpCallback.from_config"):
        dump(n=1, prompts=ids, config={"on_error": "raise"})


def test_an_empty_batch_makes_no_file_and_is_counted(dump):
    records, report = dump(n=0)
    assert records is None
    assert (report.empty_batches, report.written) == (1, 0)


def test_prompts_and_responses_must_fit():
    with pytest.raises(BatchError, match="step 1: 2 prompts and 1 responses"):
        RolloutBatch(step=1, prompts=["a", "b"], responses=["c"], scores=[1])
    with pytest.raises(BatchError, match="split is 'test'"):
        RolloutBatch(step=1, prompts=[], responses=[], scores=[], split="test")


def test_later_changes_do_not_show_and_nothing_is_changed(tmp_path, batch, read_strict):
    extras = {"acc": [1, 2, 3], "info": [{"a": [1]}, {"a": [2]}, {"a": [3]}]}
    arrays = {"arr": np.arange(3)}
    handed = batch(extras={**extras, **arrays})
    callback = RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}})
    callback.on_rollout_end(handed)
    assert extras == {"acc": [1, 2, 3], "info": [{"a": [1]}, {"a": [2]}, {"a": [3]}]}
    extras["acc"].append(9)
    extras["acc"][0] = 9
    extras["info"][0]["a"].append(9)
    arrays["arr"][:] = 9
    handed.prompts[0] = "changed"
    handed.extras["new"] = [1, 1, 1]
    callback.close()
    records = read_strict(tmp_path / "7.jsonl")
    assert [r["acc"] for r in records] == [1, 2, 3]
    assert [r["info"] for r in records] == [{"a": [1]}, {"a": [2]}, {"a": [3]}]
    assert [r["arr"] for r in records] == [0, 1, 2]
    assert records[0]["input"] == "p0" and "new" not in records[0]


def test_sampling_of_steps_and_records(tmp_path, batch, read_strict):
    config = {"path": {"dir": str(tmp_path)}, "sampling": {"every_n_steps": 2, "max_records": 4}}
    with RolloutDumpCallback.from_config(config) as callback:
        for step in range(1, 5):
            callback.on_rollout_end(batch(n=10, step=step, uids=[f"u{i}" for i in range(10)]))
    assert sorted(p.name for p in tmp_path.glob("*.jsonl")) == ["2.jsonl", "4.jsonl"]
    report = callback.report
    assert (report.steps_not_sampled, report.records_not_sampled, report.written) == (2, 12, 8)
    kept = [record["uid"] for record in read_strict(tmp_path / "2.jsonl")]
    assert len(set(kept)) == 4 and kept != ["u0", "u1", "u2", "u3"]


def test_the_sample_does_not_depend_on_the_order(tmp_path, batch, read_strict):
    kept = []
    for name, order in (("a", range(10)), ("b", reversed(range(10)))):
        config = {"path": {"dir": str(tmp_path / name)}, "sampling": {"max_records": 4}}
        with RolloutDumpCallback.from_config(config) as callback:
            callback.on_rollout_end(batch(n=10, uids=[f"u{i}" for i in order]))
        kept.append({record["uid"] for record in read_strict(tmp_path / name / "7.jsonl")})
    assert kept[0] == kept[1]


def test_validation_has_its_own_directory(tmp_path, batch, read_strict):
    config = {"path": {"dir": str(tmp_path / "t"), "validation_dir": str(tmp_path / "v")}}
    with RolloutDumpCallback.from_config(config) as callback:
        callback.on_rollout_end(batch(n=1))
        callback.on_validation_end(batch(n=2))
    assert len(read_strict(tmp_path / "t/7.jsonl")) == 1
    assert len(read_strict(tmp_path / "v/7.jsonl")) == 2
    assert json.loads((tmp_path / "v/run.json").read_bytes())["split"] == "validation"


def test_validation_in_the_same_directory_does_not_collide(tmp_path, batch, read_strict):
    config = {"path": {"dir": str(tmp_path), "validation_dir": str(tmp_path)}}
    with RolloutDumpCallback.from_config(config) as callback:
        callback.on_rollout_end(batch(n=1))
        callback.on_rollout_end(batch(n=2, split="validation"))
    assert len(read_strict(tmp_path / "7.jsonl")) == 1
    assert len(read_strict(tmp_path / "validation/7.jsonl")) == 2


def test_compressed_files_are_read_back(tmp_path, batch):
    from verl_rollout_dump.reader import read_records, step_files

    for compression, name in (("gzip", "7.jsonl.gz"), ("zstd", "7.jsonl.zst")):
        directory = tmp_path / compression
        config = {"path": {"dir": str(directory)}, "writer": {"compression": compression}}
        with RolloutDumpCallback.from_config(config) as callback:
            callback.on_rollout_end(batch())
        (path,) = step_files(directory).values()
        assert path.name == name
        assert [record["input"] for record in read_records(path)] == ["p0", "p1", "p2"]
        assert callback.report.bytes_written == path.stat().st_size


def test_nowhere_to_dump_to_is_a_mistake_in_the_config():
    with pytest.raises(ConfigError, match=r"rollout_dump.path.dir is not set"):
        RolloutDumpCallback.from_config({})


def test_a_dump_that_is_off_does_nothing(tmp_path, batch):
    config = {"enabled": False, "path": {"dir": str(tmp_path / "x")}}
    with RolloutDumpCallback.from_config(config) as callback:
        callback.on_rollout_end(batch())
    assert not (tmp_path / "x").exists()


def test_a_value_without_a_form_under_warn_costs_the_step_and_is_counted(dump, caplog):
    with caplog.at_level(logging.ERROR):
        records, report = dump({"o": [object()] * 3}, {"serialization": {"unknown": "error"}})
    assert records is None
    assert (report.failed, report.steps_failed, report.failures) == (3, [7], {"hand over: ConversionError": 1})
    assert "step 7 is not dumped" in caplog.text and "'o'" in caplog.text
    assert "rollouts of 1 steps are missing in the dump: [7]" in caplog.text


def test_a_value_without_a_form_under_raise_is_raised_in_its_step(dump):
    with pytest.raises(DumpError, match="step 7 is not dumped"):
        dump({"o": [object()] * 3}, {"on_error": "raise", "serialization": {"unknown": "error"}})


def test_a_write_that_fails_under_raise_is_raised_in_its_step(tmp_path, batch):
    callback = RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path / "d")}, "on_error": "raise"})
    (tmp_path / "d").rename(tmp_path / "moved")
    (tmp_path / "d").write_text("a file in its place")
    with pytest.raises(DumpError, match=r"step 7 is not dumped \(could not write its rollouts\): FileExistsError"):
        callback.on_rollout_end(batch())
    (tmp_path / "d").unlink()
    (tmp_path / "moved").rename(tmp_path / "d")
    callback.on_rollout_end(batch(step=8))
    callback.close()
    assert callback.report.steps_failed == [7] and callback.report.steps_written == 1


def test_a_batch_after_the_end_is_counted_as_failed(tmp_path, batch):
    callback = RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}})
    callback.close()
    callback.on_rollout_end(batch())
    assert callback.report.failures == {"hand over: RuntimeError": 1}


def test_an_exception_in_the_training_ends_the_attempt_as_failed(tmp_path, batch):
    with (
        pytest.raises(ZeroDivisionError),
        RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}}) as callback,
    ):
        callback.on_rollout_end(batch())
        raise ZeroDivisionError
    record = json.loads((tmp_path / "run.json").read_bytes())
    assert (record["state"], record["attempts"][0]["steps"]) == ("failed", "7")


def test_a_dump_that_nobody_closed_is_whole_at_exit(tmp_path):
    script = f"""
        from verl_rollout_dump import RolloutBatch, RolloutDumpCallback
        callback = RolloutDumpCallback.from_config({{"path": {{"dir": {str(tmp_path)!r}}}}})
        for step in range(5):
            callback.on_rollout_end(RolloutBatch(step=step, prompts=["p"], responses=["r"], scores=[1]))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=60)
    assert sorted(path.name for path in tmp_path.glob("*.jsonl")) == [f"{step}.jsonl" for step in range(5)]
    assert json.loads((tmp_path / "run.json").read_bytes())["state"] == "complete"


def test_importing_the_package_is_light():
    script = (
        "import sys, verl_rollout_dump; print(*sorted({'torch','transformers','ray','verl','pandas'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == ""


def test_every_public_name_is_there_and_no_other():
    import verl_rollout_dump

    assert all(hasattr(verl_rollout_dump, name) for name in verl_rollout_dump.__all__)
    assert dir(verl_rollout_dump) == sorted(verl_rollout_dump.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'RolloutDump'"):
        verl_rollout_dump.RolloutDump  # noqa: B018


def test_a_step_in_two_batches_is_one_step_of_the_report(tmp_path, batch, read_strict):
    with RolloutDumpCallback.from_config({"path": {"dir": str(tmp_path)}}) as callback:
        for _ in range(2):
            callback.on_rollout_end(batch(n=2, step=7))
    assert len(read_strict(tmp_path / "7.jsonl")) == 4
    assert (callback.report.steps_written, callback.report.records_written) == (1, 4)


def test_sys_exit_in_another_callback_does_not_end_the_training(batch, caplog):
    class Exits(RolloutCallback):
        def on_rollout_end(self, batch):
            raise SystemExit(3)

    with caplog.at_level(logging.ERROR):
        RolloutHooks([Exits()]).fire_rollout_end(batch())
    assert "callback Exits failed in on_rollout_end; training goes on" in caplog.text
