"""Lines and records of the viewer as styled text."""

from __future__ import annotations

import re

from rich.style import Style
from rich.text import Text

from verl_rollout_dump.analysis.formatting import BARS, json_text, one_line, printable
from verl_rollout_dump.reader import Record
from verl_rollout_dump.reader.field_names import FieldNames
from verl_rollout_dump.viewer.source import GroupLine, ListLine, RecordLine

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


def _score_style(score: float | None, low: float, high: float) -> Style:
    """Return the colour of a score between the lowest and the highest of its step: red, yellow, green."""
    if score is None:
        return Style(dim=True)
    place = 1.0 if high <= low else (score - low) / (high - low)
    return Style(color=("red", "yellow", "green")[min(2, int(place * 3))])


def step_line(step: int, mean: float | None, low: float, high: float) -> Text:
    """Return a step in the list of steps: number, mean score, a bar."""
    if mean is None:
        return Text(f" {step:>6}       …")
    place = 0.0 if high <= low else (mean - low) / (high - low)
    bar = "█" * int(place * 6) + BARS[int(place * 6 % 1 * 7)]
    return Text.assemble(f" {step:>6} {mean:>8.3f} ", (bar, _score_style(mean, low, high)))


def list_line(
    line: ListLine, record: Record, width: int, bounds: tuple[float, float], is_marked: bool, fields: FieldNames
) -> Text:
    """Render a line of a step's list: the heading of a group, or a record."""
    if isinstance(line, GroupLine):
        return _group_line(line, record, width, fields)
    score = "     -" if line.score is None else f"{line.score:>6.3g}"
    mark = "◆" if is_marked else " "
    text = Text.assemble((f"{mark} {line.index:>4} ", ""), (score, _score_style(line.score, *bounds)), " ")
    text.append(one_line(fields.text(record, "response").strip()[: 4 * width], width))
    return text


def _group_line(line: GroupLine, record: Record, width: int, fields: FieldNames) -> Text:
    """Render the heading of a group: mean, whether it has a signal, the prompt."""
    group = line.group
    mean = "" if group.mean is None else f" {group.mean:.3g}"
    silent = len(group.scores) > 1 and group.has_signal is False
    sign = (" no signal", "yellow") if silent else ("", "")
    prompt = one_line(fields.text(record, "prompt").strip()[: 4 * width], width)
    return Text.assemble((f"▼ group {line.number}{mean}", "bold"), sign, (f" {prompt}", "dim"))


def record_text(record: Record, title: str, needle: str, fields: FieldNames) -> Text:
    """Render a record for the right side, with `needle` marked."""
    score = fields.value(record, "score")
    text = Text.assemble((f"{title}   score ", "bold"), (printable(json_text(score)), "bold green"), "\n")
    for label, role in _PARTS:
        if fields.value(record, role) is not None:
            text.append(f"\n── {label} ──\n", _HEADING)
            text.append_text(_highlighted(printable(fields.text(record, role), _LONGEST), needle))
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


def bounds_of(lines: list[ListLine]) -> tuple[float, float]:
    """Return the lowest and the highest score of a list."""
    scores = [line.score for line in lines if isinstance(line, RecordLine) and line.score is not None]
    return (min(scores), max(scores)) if scores else (0.0, 0.0)
