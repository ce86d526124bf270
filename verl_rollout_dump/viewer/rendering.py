"""Lines and records of the viewer as styled text."""

from __future__ import annotations

import re

from rich.style import Style
from rich.text import Text

from verl_rollout_dump.analysis.formatting import BARS, json_text, one_line, printable
from verl_rollout_dump.reader import Record
from verl_rollout_dump.reader.field_names import FieldNames
from verl_rollout_dump.viewer.lines import GroupLine, ListLine
from verl_rollout_dump.viewer.list_columns import SCORE_WIDTH, ListLayout, number_text, straight
from verl_rollout_dump.viewer.word_difference import own_words

_WIDEST_BAR = 8  # cells, with a space before it
_LONGEST = 200_000  # characters of a text that is shown
_PARTS = (("prompt", "prompt"), ("response", "response"), ("ground truth", "ground_truth"))
_HEADING = Style(bold=True, color="cyan")
# Highlighted in a response: tags and special tokens, boxed answers, numbers.
_HIGHLIGHTS = (
    (re.compile(r"<\|?/?[\w\-|]+\|?>"), Style(color="magenta", bold=True)),
    (re.compile(r"\\boxed\{[^}]*\}|####\s*\S+"), Style(color="green", bold=True)),
    (re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])"), Style(color="yellow")),
)
_FOUND = Style(color="black", bgcolor="yellow")
_DIFFERS = Style(bgcolor="dark_red", bold=True)


def _score_style(score: float | None, low: float, high: float) -> Style:
    """Return the colour of a score between the lowest and the highest of its step: red, yellow, green."""
    if score is None:
        return Style(dim=True)
    place = 1.0 if high <= low else (score - low) / (high - low)
    return Style(color=("red", "yellow", "green")[min(2, int(place * 3))])


def step_line(step: int, mean: float | None, width: int, low: float, high: float) -> Text:
    """Return a step in the list of steps: number, mean score, and a bar where there is room for it."""
    if mean is None:
        return Text(f" {step:>5}      …")
    place = 0.0 if high <= low else (mean - low) / (high - low)
    bar = "█" * int(place * 6) + BARS[int(place * 6 % 1 * 7)]
    shown = f" {step:>5} {number_text(mean, 7):>7}"
    if width < len(shown) + _WIDEST_BAR:
        return Text(shown)
    return Text.assemble(shown, " ", (bar, _score_style(mean, low, high)))


def list_line(
    line: ListLine, record: Record, width: int, layout: ListLayout, is_marked: bool, fields: FieldNames
) -> Text:
    """Render a line of a step's list: the heading of a group, or a record."""
    if isinstance(line, GroupLine):
        return _group_line(line, record, width, fields)
    score = "-" if line.score is None else number_text(line.score, SCORE_WIDTH)
    mark = "◆" if is_marked else " "
    text = Text.assemble(
        f"{mark} {line.index:>{layout.index_width}} ",
        (f"{score:>{SCORE_WIDTH}}", _score_style(line.score, *layout.bounds)),
        layout.cells(record, fields),
        " ",
    )
    return text.append(_preview(fields.text(record, "response"), width))


def _preview(text: str, width: int) -> str:
    """Return the beginning of a text on one line."""
    return one_line(straight(text.strip()[: 4 * width]), width)


def _group_line(line: GroupLine, record: Record, width: int, fields: FieldNames) -> Text:
    """Render the heading of a group: mean, whether it has a signal, the prompt."""
    group = line.group
    mean = "" if group.mean is None else f" {group.mean:.3g}"
    silent = len(group.scores) > 1 and group.has_signal is False
    sign = (" no signal", "yellow") if silent else ("", "")
    prompt = _preview(fields.text(record, "prompt"), width)
    return Text.assemble((f"▼ group {line.number}{mean}", "bold"), sign, (f" {prompt}", "dim"))


def record_text(record: Record, title: str, needle: str, fields: FieldNames, other: Record | None = None) -> Text:
    """Render a record for the right side, with `needle` marked, and the words in which it differs from another one."""
    score = fields.value(record, "score")
    text = Text.assemble((f"{title}   score ", "bold"), (printable(json_text(score)), "bold green"), "\n")
    for label, role in _PARTS:
        if fields.value(record, role) is not None:
            shown = _highlighted(printable(fields.text(record, role), _LONGEST), needle)
            if other is not None:
                for start, end in own_words(shown.plain, printable(fields.text(other, role), _LONGEST)):
                    shown.stylize(_DIFFERS, start, end)
            text.append(f"\n── {label} ──\n", _HEADING)
            text.append_text(shown)
            text.append("\n")
    extras = {"uid": fields.value(record, "uid"), **fields.extras(record)}
    text.append("\n── extras ──\n", _HEADING)
    for name, value in extras.items():
        if value is not None:
            text.append_text(
                Text.assemble((printable(name), "bold"), " = ", printable(json_text(value), _LONGEST), "\n")
            )
    return text


def _highlighted(shown: str, needle: str) -> Text:
    """Return a text with tags and answers in colour, and the searched text marked."""
    text = Text(shown)
    for pattern, style in _HIGHLIGHTS:
        for match in pattern.finditer(shown):
            text.stylize(style, match.start(), match.end())
    if needle:
        for match in re.finditer(re.escape(needle), shown, re.IGNORECASE):
            text.stylize(_FOUND, match.start(), match.end())
    return text
