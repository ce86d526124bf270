"""The viewer, used by its keys."""

import json
import time

import pytest

pytest.importorskip("textual")

from driving import listed, look_for_changes, press, settle, shown, status, use
from textual.binding import Binding

from verl_rollout_dump.reader import open_dump
from verl_rollout_dump.viewer.app import ViewerApp
from verl_rollout_dump.viewer.help_screen import BINDINGS, HelpScreen, help_rows
from verl_rollout_dump.viewer.line_list import LineList
from verl_rollout_dump.viewer.lines import GroupLine, RecordLine, first_of_group, line_of
from verl_rollout_dump.viewer.source import ViewerSource


def test_the_last_step_is_shown_by_groups(small_dump):
    async def check(app, pilot, press):
        assert listed(app) == [
            "▼ group 1 1 no signal prompt 0",
            "0 1 13 response 10.0",
            "1 1 13 response 10.1",
            "▼ group 2 1 no signal prompt 1",
            "2 1 13 response 10.2",
            "3 1 13 response 10.3",
        ]
        assert "step 10, index 0   score 1.0" in shown(app)
        assert "response 10.0" in shown(app) and "acc = true" in shown(app)
        assert status(app) == "step 10  ·  4 records  ·  groups"
        assert list(app.curve.data) == [0.5, 0.5, 1.0]

    use(small_dump, check)


def test_moving(small_dump):
    async def check(app, pilot, press):
        await press("j")
        assert "index 1 " in shown(app)
        await press("]")
        assert "index 2 " in shown(app)
        await press("G")
        assert "index 3 " in shown(app)
        await press("[")
        assert "index 2 " in shown(app)
        await press("[")
        assert "index 0 " in shown(app)
        await press("<")
        assert status(app).startswith("step 2 ") and "step 2, index 0" in shown(app)
        await press("<", "<", "<")
        assert status(app).startswith("step 1 ")
        await press(">", ">")
        assert status(app).startswith("step 10 ")
        await pilot.click("#records", offset=(10, 4))
        await settle(app, pilot)
        assert "index 2 " in shown(app)

    use(small_dump, check)


def test_sorting(small_dump):
    async def check(app, pilot, press):
        await press("<", "s")
        assert listed(app) == [
            "0 0 12 response 2.0",
            "2 0 12 response 2.2",
            "1 1 12 response 2.1",
            "3 1 12 response 2.3",
        ]
        await press("s")
        assert listed(app)[0] == "1 1 12 response 2.1"
        assert status(app).endswith("best first")

    use(small_dump, check)


def test_filter(small_dump):
    async def check(app, pilot, press):
        await press("<", "f", *"score==1", "enter")
        assert listed(app) == [
            "▼ group 1 0.5 prompt 0",
            "1 1 12 response 2.1",
            "▼ group 2 0.5 prompt 1",
            "3 1 12 response 2.3",
        ]
        assert status(app) == "step 2  ·  2 records  ·  groups  ·  filter: score==1"
        await press("f", *"<", "enter")
        assert app.question.display  # a mistake can be put right
        await press("escape", "f")
        app.question.value = "score > 5"
        await press("enter")
        assert listed(app) == [] and "No record of this step passes" in shown(app)
        await press("j", "]", "m", "y", "n")
        await press("f")
        app.question.value = ""
        await press("enter")
        assert len(listed(app)) == 6

    use(small_dump, check)


def test_search(small_dump):
    async def check(app, pilot, press):
        await press("slash", *"PROMPT 1", "enter")
        assert "index 2 " in shown(app)
        await press("n")
        assert "index 3 " in shown(app)
        await press("n")
        assert "index 2 " in shown(app)
        await press("N")
        assert "index 3 " in shown(app)
        await press("slash")
        app.question.value = "nowhere"
        await press("enter")
        assert "index 3 " in shown(app)

    use(small_dump, check)


def test_compare_and_copy(small_dump):
    async def check(app, pilot, press):
        await press("c")
        assert not app.marked_pane.display
        await press("m", "]", "c")
        assert app.marked_pane.display
        assert "◆ step 10, index 0" in shown(app, "marked") and "index 2 " in shown(app)
        await press("y")
        assert app.clipboard == "response 10.2"
        await press("Y")
        assert json.loads(app.clipboard)["uid"] == "uid10p1_0_0"
        await press("c")
        assert not app.marked_pane.display

    use(small_dump, check)


def test_help(small_dump):
    async def check(app, pilot, press):
        await press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        rows = help_rows(app, [*LineList.BINDINGS, *BINDINGS])
        bound = {action for binding in Binding.make_bindings(BINDINGS) if (action := binding.tooltip)}
        assert bound <= {action for _, action in rows}
        assert ("/", "search in the prompts and responses of all steps") in rows
        assert ("[", "go to the previous group") in rows
        app._show_scores()  # what goes on behind the help
        app.load_lines()
        await settle(app, pilot)
        await press("escape")
        assert not isinstance(app.screen, HelpScreen)

    use(small_dump, check)


def test_follow(small_dump, write_step, make_record):
    async def check(app, pilot, press):
        write_step("11.jsonl", [make_record(11, 0, output="new")])
        await look_for_changes(app, pilot)
        assert status(app).startswith("step 10 ")
        await press("F")
        await look_for_changes(app, pilot)
        assert status(app) == "step 11  ·  1 records  ·  groups  ·  following"
        assert "new" in shown(app)

    use(small_dump, check)


def test_hostile_records(write_step, make_record):
    hostile = "\x1b[2J [bold]x[/] [/] \x00 \u202e"
    dump = write_step("1.jsonl", [make_record(1, 0, output=hostile, score="high"), {"x": [1]}, {"output": None}])
    (dump / "2.jsonl").write_bytes(b"")

    async def check(app, pilot, press):
        assert listed(app) == []
        await press("<")
        assert r"\x1b[2J [bold]x[/] [/] \x00 \u202e" in shown(app)
        assert len(listed(app)) == 6  # records without a prompt are groups of their own
        await press("G", "s", "s", "s")

    use(dump, check)


def test_many_records_open_at_once(write_step):
    dump = write_step(
        "1.jsonl", b"".join(b'{"input": "p%d", "output": "o", "score": 1}\n' % (i // 8) for i in range(50_000))
    )

    async def check(app, pilot, press):
        begun = time.monotonic()
        await press("G")
        assert "index 49999" in shown(app)
        assert time.monotonic() - begun < 5

    use(dump, check)


def test_places():
    lines = [GroupLine(1, None), *(RecordLine(i, 0, 1) for i in (0, 1)), GroupLine(2, None), RecordLine(2, 0, 2)]
    assert [first_of_group(lines, 1, direction) for direction in (1, -1)] == [4, 1]
    assert [line_of(lines, index) for index in (0, 2, 3, None)] == [1, 4, None, None]


def test_snapshot(small_dump, monkeypatch, request):
    pytest.importorskip("pytest_textual_snapshot")
    snap_compare = request.getfixturevalue("snap_compare")
    monkeypatch.chdir(small_dump.parent)

    async def go_to_a_record(pilot):
        await settle(pilot.app, pilot)
        await press(pilot.app, pilot, "<", "j")

    with ViewerSource(open_dump(small_dump)) as source:
        assert snap_compare(ViewerApp(source), terminal_size=(120, 30), run_before=go_to_a_record)
