"""Tensors of other devices: copied without waiting for each, and read only when the device is done.

No such device is here: one is pretended whose copies stay empty until the event behind them is waited for.
"""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from verl_rollout_dump import RolloutBatch, RolloutDumpCallback  # noqa: E402
from verl_rollout_dump.batch.deferred import DeferredRows  # noqa: E402
from verl_rollout_dump.batch.host_copies import HostCopies, is_elsewhere  # noqa: E402


class Device:
    """What `torch.cuda` is to a stream: copies are carried out when an event is waited for."""

    def __init__(self):
        self.type = "pretended"
        self.told = []
        self._under_way = []

    def current_stream(self, device):
        assert device is self
        return SimpleNamespace(record_event=self.record_event)

    def record_event(self):
        self.told.append("event")
        return SimpleNamespace(synchronize=self.synchronize)

    def synchronize(self):
        self.told.append("wait")
        for copy, content in self._under_way:
            copy.copy_(content)
        self._under_way.clear()

    def begin(self, content):
        self.told.append("copy")
        copy = torch.zeros_like(content)
        self._under_way.append((copy, content.clone()))
        return copy


class DeviceTensor:
    """A tensor of the device; what is asked of its numbers before they are on the host fails."""

    is_nested = False

    def __init__(self, content, device):
        self._content, self.device = content, device
        self.dtype, self.shape, self.ndim = content.dtype, content.shape, content.ndim

    def __len__(self):
        return len(self._content)

    def detach(self):
        return self

    def float(self):
        return DeviceTensor(self._content.float(), self.device)

    def to(self, place, non_blocking):
        assert (place, non_blocking) == ("cpu", True)
        return self.device.begin(self._content)

    def cpu(self):
        self.device.told.append("blocking copy")
        return self._content


@pytest.fixture
def device(monkeypatch):
    device = Device()
    monkeypatch.setattr(torch, "pretended", device, raising=False)
    return device


def test_copies_are_begun_together_and_waited_for_once(device):
    copies = HostCopies()
    ids = DeviceTensor(torch.arange(6).reshape(2, 3), device)
    array, log_probs = (
        copies.array(ids),
        copies.array(DeviceTensor(torch.full((2, 3), 0.5, dtype=torch.bfloat16), device)),
    )
    assert copies.array(ids) is array
    copies.seal()
    assert array.tolist() == [[0, 0, 0], [0, 0, 0]]
    copies.wait()
    copies.wait()
    assert device.told == ["copy", "copy", "event", "wait"]
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert log_probs.dtype == np.float32 and log_probs.tolist() == [[0.5] * 3] * 2


def test_a_device_without_streams_is_waited_for(device, monkeypatch):
    monkeypatch.delattr(torch, "pretended")
    copies = HostCopies()
    assert copies.array(DeviceTensor(torch.ones(2), device)).tolist() == [1, 1]
    copies.seal()
    copies.wait()
    assert device.told == ["blocking copy"]


def test_what_is_on_the_host_stays_where_it_is():
    copies = HostCopies()
    for values in (torch.ones(2), np.ones(2), [1, 2], "text", torch.ones(2, device="meta")):
        assert not is_elsewhere(values)
        assert copies.begin(values) is values
    tensor = torch.ones(3)
    array = copies.array(tensor)
    tensor[0] = 7
    assert array.tolist() == [7, 1, 1]


class Letters:
    def decode(self, ids, skip_special_tokens=True):
        return "".join(map(chr, ids))


@pytest.fixture
def dumped(device, tmp_path, read_strict):
    """Dump a batch of device tensors, the middle rollout without real tokens; return its records and the report."""

    def on_device(rows, dtype=torch.int64):
        return DeviceTensor(torch.tensor(rows, dtype=dtype), device)

    def dump(**more):
        node = {"path": {"dir": str(tmp_path / "dump")}, "fields": {"tokens": True}}
        with RolloutDumpCallback.from_config(node, tokenizer=Letters()) as callback:
            given = {
                "prompts": on_device([[0, 65], [68, 68], [66, 67]]),
                "responses": on_device([[97, 98], [100, 100], [99, 0]]),
                "scores": on_device([0.5, 9, 1.5], torch.float32),
                "prompt_mask": on_device([[0, 1], [1, 1], [1, 1]]),
                "response_mask": on_device([[1, 1], [0, 0], [1, 0]]),
                "log_probs": on_device([[-0.5, -1], [0, 0], [-2, 0]], torch.bfloat16),
            }
            batch = RolloutBatch(step=1, **given | more)
            callback.on_rollout_end(batch)
        return read_strict(tmp_path / "dump/1.jsonl"), callback.report

    return dump


def test_ids_on_a_device_with_a_mask_that_comes_later_are_waited_for(device, dumped):
    mask = DeferredRows(3, lambda: np.array([[1, 1], [0, 0], [1, 0]]))
    (first, middle, second), report = dumped(response_mask=mask)
    assert (first["output"], middle["output"], second["output"], second["response_ids"]) == ("ab", "", "c", [99])
    assert (first["rollout_log_probs"], report.failures) == ([-0.5, -1.0], {})
    assert "blocking copy" not in device.told
    assert device.told.count("event") == device.told.count("wait") == 1


def test_a_dump_of_device_tensors_waits_for_them_in_the_background(device, dumped):
    (first, middle, second), report = dumped()
    assert (first["input"], first["output"], first["score"]) == ("A", "ab", 0.5)
    assert (second["input"], second["output"], second["score"]) == ("BC", "c", 1.5)
    assert (second["response_ids"], second["rollout_log_probs"]) == ([99], [-2.0])
    assert "blocking copy" not in device.told
    assert device.told.count("event") == device.told.count("wait") == 1
    assert (middle["output"], middle["response_ids"], middle["score"], report.failures) == ("", [], 9.0, {})
