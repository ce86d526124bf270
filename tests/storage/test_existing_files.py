"""The policies of `path.existing` are the same for a directory and for a store."""

import json

import pytest

fsspec = pytest.importorskip("fsspec", reason="remote stores need fsspec")

from verl_rollout_dump import RolloutDumpCallback  # noqa: E402

STORE = "memory://policies/run"


@pytest.fixture(params=["local", "remote"])
def place(request, tmp_path, monkeypatch):
    """A directory or a store, and a function that returns its step files: name -> prompt, uncompressed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = fsspec.filesystem("memory")
    files.store.clear()
    folder = tmp_path / "dump"

    def read():
        if request.param == "local":
            return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.jsonl*")}
        return {name.removeprefix("/policies/run/"): files.cat_file(name) for name in files.find("/policies/run")}

    yield (str(folder) if request.param == "local" else STORE), read
    files.store.clear()


def dump(directory, batch, prompt, existing, compression):
    node = {
        "path": {"dir": directory, "existing": existing},
        "writer": {"compression": compression, "retry_seconds": 0},
    }
    with RolloutDumpCallback.from_config(node) as callback:
        callback.on_rollout_end(batch(n=1, step=1, prompts=[prompt]))
    return callback


@pytest.mark.parametrize(
    ("existing", "names", "failed"),
    [
        ("supersede", {"1.jsonl.gz", "superseded/1/1.jsonl"}, []),
        ("overwrite", {"1.jsonl.gz"}, []),
        ("error", {"1.jsonl"}, [1]),
    ],
)
def test_a_file_of_another_compression_is_an_earlier_file_of_the_step(place, batch, existing, names, failed):
    directory, read = place
    dump(directory, batch, "first", existing, None)
    callback = dump(directory, batch, "second", existing, "gzip")
    assert callback.report.steps_failed == failed
    files = {name: content for name, content in read().items() if ".jsonl" in name}
    assert set(files) == names
    kept = [json.loads(content)["input"] for name, content in files.items() if name.endswith(".jsonl")]
    assert kept == ["first"] * (existing != "overwrite")
