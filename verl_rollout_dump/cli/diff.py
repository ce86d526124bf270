"""`diff`: compare two dumps, or two parts of one."""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from verl_rollout_dump.analysis.diff import KEYS, PromptChange, StepScores, prompt_changes, scored_records, step_scores
from verl_rollout_dump.analysis.formatting import figure, printable
from verl_rollout_dump.analysis.labels import PromptLabels
from verl_rollout_dump.analysis.selection import select_steps
from verl_rollout_dump.analysis.stats import why_no_scores
from verl_rollout_dump.cli.arguments import WORKERS, AsJson, Directory
from verl_rollout_dump.cli.opening import opened_dump
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.progress import progress_bar
from verl_rollout_dump.cli.tables import Cell, TableColumn, print_table, text_column
from verl_rollout_dump.reader import Dump, DumpReadError, FieldNames
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS

_STEPS_SHOWN = 40
_STYLES = {"delete": "red strike", "insert": "green"}
_WORDS_COMPARED = 2000
_COLUMNS = (
    TableColumn("B - A"),
    TableColumn("A", expendable=2),
    TableColumn("B", expendable=2),
    TableColumn("rollouts", expendable=3),
    TableColumn("best at (step, index)", expendable=1),
    text_column("prompt", narrowest=24),
)


def diff(
    directory: Directory,
    other: Annotated[Path | None, typer.Argument(metavar="[DIR_B]", help="The dump to compare with.")] = None,
    step_a: Annotated[str | None, typer.Option(metavar="STEPS", help="Steps of DIR; default: all.")] = None,
    step_b: Annotated[str | None, typer.Option(metavar="STEPS", help="Steps of DIR_B; default: all.")] = None,
    by: Annotated[str, typer.Option(help=f"What identifies the same prompt: {' or '.join(KEYS)}.")] = "prompt",
    count: Annotated[int, typer.Option("-n", min=0, help="How many prompts to show that got worse, and better.")] = 5,
    texts: Annotated[bool, typer.Option("--texts", help="Show how the best responses differ, word by word.")] = False,
    as_json: AsJson = False,
    fields: FieldNames = DEFAULT_FIELDS,
) -> None:
    """Compare two runs, or two ranges of steps of one: score per step, and the prompts that got worse or better.

    A prompt's score is the mean of all its rollouts in the steps.

    Examples:

    - `verl-rollout-dump diff RUN_A RUN_B`
    - `verl-rollout-dump diff DIR --step-a 10 --step-b 20 --texts`
    - `verl-rollout-dump diff DIR --step-a 1-10 --step-b 91-100 --json`
    """
    if by not in KEYS:
        raise DumpReadError(f"--by {by}: expected {' or '.join(KEYS)}")
    if other is None and (step_a is None or step_b is None):
        raise DumpReadError("give a second dump to compare with, or --step-a and --step-b to compare steps of one")
    with opened_dump(directory, fields) as before, opened_dump(other or directory, fields) as after:
        for dump in (before, after):
            _prepare(dump)
        scored = [
            scored_records(dump, select_steps(dump, steps), by) for dump, steps in ((before, step_a), (after, step_b))
        ]
        changes = prompt_changes(*scored)
        steps = step_scores(before, after) if other else []
        if as_json:
            print_json(_as_json_value(before, after, steps, changes, count))
            return
        _print_step_scores(steps[-_STEPS_SHOWN:])
        _print_changes(before, after, changes, count, console())
        if texts:
            _print_texts(before, after, changes, count, console())


def _prepare(dump: Dump) -> None:
    """Index a dump. Raises `DumpReadError` if its scores are not known."""
    with progress_bar(f"indexing {dump.path.name}", dump.size) as advance:
        dump.make_index(WORKERS, advance)
    if why := why_no_scores(dump):
        raise DumpReadError(f"{dump.path}: {why}")


def _print_step_scores(steps: list[StepScores]) -> None:
    """Print the scores of both dumps side by side."""
    if not steps:
        return
    rows: list[list[Cell]] = [
        [str(step.step), figure(step.before), figure(step.after), _signed(step.change)] for step in steps
    ]
    print_table([TableColumn(heading) for heading in ("step", "score A", "score B", "B - A")], rows)


def _signed(change: float | None) -> Text:
    """Return a change with its sign, in red if it is a loss."""
    if change is None:
        return Text()
    return Text(f"{change:+.4f}", style="red" if change < 0 else "green" if change > 0 else "")


def _shown_changes(changes: list[PromptChange], count: int) -> list[tuple[str, list[PromptChange]]]:
    """Return the prompts to show: those that lost most, and those that gained most."""
    worse = [change for change in changes if change.change < 0][:count]
    better = [change for change in reversed(changes) if change.change > 0][:count]
    return [("worse", worse), ("better", better)]


def _print_changes(before: Dump, after: Dump, changes: list[PromptChange], count: int, out: Console) -> None:
    """Print the prompts that changed most."""
    if not changes:
        out.print("No prompt is in both. (A prompt comes again after an epoch; compare steps that are so far apart.)")
        return
    worse = sum(change.change < 0 for change in changes)
    better = sum(change.change > 0 for change in changes)
    out.print(f"{len(changes)} prompts in both: {worse} worse, {better} better, {len(changes) - worse - better} equal")
    for title, shown in _shown_changes(changes, count):
        if shown:
            print_table(_COLUMNS, _change_rows(after, shown), title)


def _change_rows(after: Dump, shown: list[PromptChange]) -> list[list[Cell]]:
    """Return the rows of some prompts."""
    prompts = [after.fields.text(after.raw_record(*change.place_after), "prompt") for change in shown]
    labels = PromptLabels(prompts)
    return [
        [
            _signed(change.change),
            figure(change.before),
            figure(change.after),
            f"{change.rollouts_before} / {change.rollouts_after}",
            f"{change.place_before} / {change.place_after}",
            Text(labels.label(prompt, 120)),
        ]
        for change, prompt in zip(shown, prompts, strict=True)
    ]


def _print_texts(before: Dump, after: Dump, changes: list[PromptChange], count: int, out: Console) -> None:
    """Print how the best responses of the shown prompts differ."""
    for title, shown in _shown_changes(changes, count):
        for change in shown:
            one = before.fields.text(before.raw_record(*change.place_before), "response")
            two = after.fields.text(after.raw_record(*change.place_after), "response")
            out.rule(f"{title}: {change.place_before} → {change.place_after}", align="left")
            out.print(_word_diff(one, two))


def _word_diff(before: str, after: str) -> Text:
    """Return two texts as one: removed words struck out in red, added words in green."""
    one, two = (printable(text, None).split(" ")[:_WORDS_COMPARED] for text in (before, after))
    shown = Text()
    for kind, a, b, c, d in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if kind == "equal":
            shown.append(" ".join(one[a:b]) + " ")
            continue
        for words, style in ((one[a:b], _STYLES["delete"]), (two[c:d], _STYLES["insert"])):
            if words:
                shown.append(" ".join(words), style=style)
                shown.append(" ")
    return shown


def _as_json_value(
    before: Dump, after: Dump, steps: list[StepScores], changes: list[PromptChange], count: int
) -> dict[str, Any]:
    """Return the comparison for scripts: all steps, and the prompts that changed most."""
    told = {
        title: [
            {**change.as_json(), "prompt": after.fields.text(after.raw_record(*change.place_after), "prompt")}
            for change in shown
        ]
        for title, shown in _shown_changes(changes, count)
    }
    scores = [{**step._asdict(), "change": step.change} for step in steps]
    return {"a": str(before.path), "b": str(after.path), "steps": scores, "prompts_in_both": len(changes), **told}
