"""The viewer while a training, or somebody, changes the dump under it."""

import shutil

import pytest

pytest.importorskip("textual")

from driving import listed, look_for_changes, settle, shown, status, use


def test_a_removed_step_leaves_the_list_and_the_viewer_goes_on(small_dump):
    async def check(app, pilot, press):
        await press("F", "<")
        (small_dump / "10.jsonl").unlink()
        app.step_list.redraw()  # before anybody has looked
        await settle(app, pilot)
        await look_for_changes(app, pilot)
        assert (app.step_list.count, app.source.steps) == (2, [1, 2])
        assert status(app).startswith("step 2 ") and len(listed(app)) == 6
        (small_dump / "2.jsonl").unlink()
        await look_for_changes(app, pilot)
        assert status(app).startswith("step 1 ") and "step 1, index 0" in shown(app)
        assert [notice.message for notice in app._notifications] == ["Removed: step 10", "Removed: step 2"]

    use(small_dump, check)


def test_a_removed_file_is_named_where_its_records_were(small_dump):
    async def check(app, pilot, press):
        (small_dump / "1.jsonl").unlink()
        await press("<", "<")
        assert f"(cannot be read: {small_dump}/1.jsonl cannot be opened: No such file or directory)" in shown(app)
        await press("f", *"score >= 0", "enter")
        assert (listed(app), shown(app)) == ([], f"{small_dump}/1.jsonl was removed.")
        await press("j", "G", "]", "m", "c", "y", "n", "s", "s", "s", "z", "z", ">")
        assert status(app).startswith("step 2 ") and len(listed(app)) == 4

    use(small_dump, check)


def test_the_record_is_named_that_cannot_be_read_any_more(small_dump):
    async def check(app, pilot, press):
        (small_dump / "1.jsonl").write_bytes(b"\n")
        await press("<", "<", "G")
        assert f"{small_dump}/1.jsonl changed while it was read (record 3 of step 1)" in shown(app)

    use(small_dump, check)


def test_a_replaced_step_is_shown_anew_with_the_cursor_where_it_was(small_dump, write_step, make_record):
    async def check(app, pilot, press):
        await press("F", "<", "j")
        assert "step 2, index 1 " in shown(app)
        write_step("2.jsonl", [make_record(2, index, output=f"new {index}") for index in range(3)])
        await look_for_changes(app, pilot)
        assert "step 2, index 1 " in shown(app) and "new 1" in shown(app)
        assert len(listed(app)) == 5

    use(small_dump, check)


def test_a_folder_that_vanishes_and_comes_back(small_dump, write_step, make_record):
    async def check(app, pilot, press):
        await press("F")
        shutil.rmtree(small_dump)
        for _ in range(2):  # said once
            await look_for_changes(app, pilot)
        assert [f"{small_dump} does not exist" in notice.message for notice in app._notifications] == [True]
        await press("<", "j", ">")
        write_step("4.jsonl", [make_record(4, 0, output="back")])
        await look_for_changes(app, pilot)
        assert (app.source.steps, "back" in shown(app)) == ([4], True)
        (small_dump / "4.jsonl").unlink()
        await look_for_changes(app, pilot)
        assert (app.step_list.count, app.record_list.count) == (0, 0)
        assert shown(app) == f"{small_dump} holds no steps now."
        await press("j", "<", "m", "c", "s", "]", "y")

    use(small_dump, check)
