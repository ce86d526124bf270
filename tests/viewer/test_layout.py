"""What the screen shows: columns, zoom, comparison, small terminals, wide characters."""

import pytest

pytest.importorskip("textual")

from driving import listed, shown, status, use
from rich.cells import cell_len
from textual.widgets import Static

from verl_rollout_dump.viewer.list_columns import ListLayout, columns_of, fitted, number_text
from verl_rollout_dump.viewer.word_difference import own_words


def lines_of(widget):
    return ["".join(segment.text for segment in widget.render_line(y)) for y in range(widget.size.height)]


def test_orders(small_dump, write_step, make_record):
    write_step("10.jsonl", [make_record(10, i, output="x" * length) for i, length in enumerate((5, 2, 9, 0))])

    async def check(app, pilot, press):
        orders = {}
        for _ in range(5):
            orders[app.order] = [line.split()[0] for line in listed(app)]
            await press("s")
        assert orders == {
            "groups": ["▼", "0", "1", "▼", "2", "3"],
            "worst first": ["0", "2", "1", "3"],
            "best first": ["1", "3", "0", "2"],
            "longest first": ["2", "0", "1", "3"],
            "shortest first": ["3", "1", "0", "2"],
        }
        assert app.order == "groups"

    use(small_dump, check)


def test_columns_of_any_field(write_step, make_record):
    extras = [{"reward": {"format": 0.25}}, {"kind": "math"}, {"reward": {"format": 1e-7}, "kind": "数学数学数学数学"}]
    dump = write_step("1.jsonl", [make_record(1, i, **extra) for i, extra in enumerate(extras)])

    async def check(app, pilot, press):
        await press("s", "e")
        app.question.value = "acc, reward.format,kind"
        await press("enter")
        assert str(app.list_heading.render()) == "    #    score      acc reward.format     kind response"
        assert [str(app._line_text(number, 80)) for number in range(3)] == [
            "    0        0    false          0.25          response 1.0",
            "    2        0    false         1e-07 数学数 … response 1.2",
            "    1        1     true                   math response 1.1",
        ]

    use(dump, check)


def test_numbers_are_rounded_never_cut():
    assert [number_text(value, 8) for value in (0.1 + 0.2, -1.23456e-05, 12345678, 123456789, 1000.0)] == [
        "0.3",
        "-1.2e-05",
        "12345678",
        "1.23e+08",
        "1000",
    ]
    assert columns_of(" length,, acc ,length") == ("length", "acc")
    assert (fitted("数学数学", 5), fitted("abc", 3)) == ("数学…", "abc")
    assert ListLayout(columns=()).heading() == "    #    score response"


def test_zoom_of_each_part(small_dump):
    async def check(app, pilot, press):
        def widths():
            return [app.query_one(part).size.width for part in ("#left", "#middle", "#right")]

        shared = widths()
        assert all(shared)
        await press("z")
        assert [bool(width) for width in widths()] == [False, True, False]
        assert app.record_list.size.width == 150 - 1
        await press("j")
        assert "index 1 " in shown(app)
        await press("z")
        assert widths() == shared
        app.record_pane.focus()
        await press("z")
        assert [bool(width) for width in widths()] == [False, False, True]
        await press("z")
        app.step_list.focus()
        await press("z")
        assert [bool(width) for width in widths()] == [True, False, False]

    use(small_dump, check)


def marked_words(app, pane):
    text = getattr(app, f"{pane}_pane").query_one(Static).content
    spans = [
        span for span in text.spans if getattr(span.style, "bgcolor", None) and span.style.bgcolor.name == "dark_red"
    ]
    return [text.plain[span.start : span.end] for span in spans]


def test_comparison_marks_the_words_that_differ(write_step, make_record):
    outputs = ("the answer is 7 indeed", "the sum is 9 indeed")
    dump = write_step("1.jsonl", [make_record(1, i, output=text, gts="x") for i, text in enumerate(outputs)])

    async def check(app, pilot, press):
        await press("m", "j", "c")
        assert marked_words(app, "marked") == ["answer", "7"]
        assert marked_words(app, "record") == ["sum", "9"]
        await press("k")
        assert (marked_words(app, "marked"), marked_words(app, "record")) == ([], [])
        await press("j", "c")
        assert marked_words(app, "record") == [] and not app.marked_pane.display

    use(dump, check)


def parts(text, other):
    return [text[start:end] for start, end in own_words(text, other)]


def test_words_that_differ():
    assert parts("a b c", "a x c") == ["b"]
    assert parts("a b c", "a c") == ["b "]
    assert parts("a c", "a b c") == []
    assert parts("", "a") == [] and parts("a", "") == ["a"]
    assert parts("same", "same") == []
    long, other = " ".join(map(str, range(5000))), " ".join(map(str, range(5000, 10000)))
    assert parts(f"start {long} end", f"start {other} end") == [long]


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (200, 50)])
def test_every_size_is_usable(small_dump, size):
    async def check(app, pilot, press):
        assert app.step_list.size.width >= 14 or size[0] < 80
        first = next(line for line in lines_of(app.record_list) if "0        1" in line)
        assert "respon" in first or size[0] < 80
        if size[0] == 80:  # no room for a bar, and no number is cut for it
            assert [line.rstrip() for line in lines_of(app.step_list)][:3] == [
                "     1     0.5",
                "     2     0.5",
                "    10       1",
            ]
        assert "step 10, index 0" in shown(app)
        await press("m", "j", "c", "z", "z", "question_mark")
        await press("escape")
        assert status(app).startswith("step 10  ·  4 records")

    use(small_dump, check, size)


def test_the_footer_fits_into_80_columns(small_dump):
    async def check(app, pilot, press):
        footer = app.screen.query_one("Footer")
        keys = [key for key in footer.children if key.region.width]
        assert [key.region.right <= 80 for key in keys] == [True] * len(keys)
        assert [key.description for key in keys][:3] == ["help", "search", "filter"]
        assert keys[-1].description == "quit"

    use(small_dump, check, (80, 24))


def test_wide_and_zero_width_characters_keep_the_columns_straight(write_step, make_record):
    outputs = [
        "数学の答えは" * 20,
        "e\u0301" * 40,
        "👩\u200d👩\u200d👧 family",
        "a\u200bb\ufe0f\u200d",
        "plain",
        "\u0e01\u0e33" * 30,
    ]
    dump = write_step(
        "1.jsonl",
        [make_record(1, i, output=text, kind=text[:9], input=f"{text} prompt {i}") for i, text in enumerate(outputs)],
    )

    async def check(app, pilot, press):
        await press("e")
        app.question.value = "kind,length"
        await press("enter")
        for _ in range(2):
            width = app.record_list.size.width
            assert [cell_len(line) for line in lines_of(app.record_list)] == [width] * app.record_list.size.height
            await press("s")
        starts = {
            cell_len(line[: line.rindex(str(len(text)))]) + len(str(len(text))) for line, text in _lengths(app, outputs)
        }
        assert len(starts) == 1

    use(dump, check, (80, 24))


def _lengths(app, outputs):
    """Each line up to its column of length, with the response that it shows."""
    for number, line in enumerate(app.lines):
        text = outputs[line.index]
        shown_line = str(app._line_text(number, 60))
        yield shown_line[: shown_line.index(f" {len(text)} ") + len(str(len(text))) + 1], text
