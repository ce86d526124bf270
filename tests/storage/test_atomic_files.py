"""Files appear whole or not at all, also those that several processes write."""

import pytest

from verl_rollout_dump.storage.atomic_files import link_if_free, rename_over, replacing, write_shared_file


def test_a_block_that_fails_leaves_the_older_file_alone(tmp_path):
    target = tmp_path / "out"
    target.write_text("old")
    with pytest.raises(ValueError), replacing(target) as temporary:
        temporary.write_text("half")
        raise ValueError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_is_replaced_and_removed_like_a_file(tmp_path):
    with pytest.raises(ValueError), replacing(tmp_path / "out") as temporary:
        (temporary / "inner").mkdir(parents=True)
        raise ValueError
    assert list(tmp_path.iterdir()) == []


def test_a_shared_file_is_written_once_or_replaced(tmp_path):
    path = tmp_path / "claim"
    write_shared_file(path, b"first", link_if_free)
    with pytest.raises(FileExistsError):
        write_shared_file(path, b"second", link_if_free)
    assert path.read_bytes() == b"first"
    write_shared_file(path, b"third", rename_over)
    assert path.read_bytes() == b"third"
    assert list(tmp_path.iterdir()) == [path]
