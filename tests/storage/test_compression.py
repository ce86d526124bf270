"""Each codec reads what it wrote."""

import pytest

from verl_rollout_dump.storage.atomic_files import Sync, write_file
from verl_rollout_dump.storage.compression import CODECS, Gzip, Zstd

PIECES = [[b'{"a": 1}\n', memoryview(b'{"a": 2}\n')], [], [b'{"a": "\xc3\xa9"}\n']]
TEXT = b'{"a": 1}\n{"a": 2}\n{"a": "\xc3\xa9"}\n'


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.__name__)
def test_round_trip(tmp_path, codec):
    if codec.package:
        pytest.importorskip(codec.package)
    path = tmp_path / f"1.jsonl{codec.suffix}"
    assert write_file(path, PIECES, codec(), Sync()) == path.stat().st_size
    with codec.open(path) as file:
        assert file.read() == TEXT


@pytest.mark.parametrize("codec", [Gzip, Zstd])
def test_damaged_bytes_raise_one_of_the_faults(tmp_path, codec):
    if codec.package:
        pytest.importorskip(codec.package)
    path = tmp_path / f"1.jsonl{codec.suffix}"
    write_file(path, PIECES, codec(), Sync())
    data = bytearray(path.read_bytes())
    data[6:] = b"\xff" * (len(data) - 6)
    path.write_bytes(data)
    with codec.open(path) as file, pytest.raises(codec.faults()):
        file.read()
