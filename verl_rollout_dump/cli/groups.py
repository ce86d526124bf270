"""`groups`: the rollouts of each prompt, and the groups without a signal."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from verl_rollout_dump.analysis.formatting import figure
from verl_rollout_dump.analysis.groups import Group, groups_of_step, select_groups
from verl_rollout_dump.analysis.labels import PromptLabels
from verl_rollout_dump.analysis.selection import Selection
from verl_rollout_dump.analysis.stats import why_no_scores
from verl_rollout_dump.cli.arguments import WORKERS, AsJson, Directory
from verl_rollout_dump.cli.opening import opened_selection
from verl_rollout_dump.cli.output import console, print_json
from verl_rollout_dump.cli.progress import progress_bar
from verl_rollout_dump.cli.tables import Cell, TableColumn, print_table, text_column
from verl_rollout_dump.reader import Dump, FieldNames
from verl_rollout_dump.reader.field_names import DEFAULT_FIELDS

_SCORES_SHOWN = 16
_COLUMNS = (
    TableColumn("step"),
    TableColumn("index"),
    TableColumn("mean", expendable=1),
    text_column("scores", narrowest=8),
    text_column("prompt"),
)
_DEFAULT = Selection(step="last", limit=50)


def groups(
    directory: Directory,
    selection: Selection = _DEFAULT,
    no_signal: Annotated[bool, typer.Option("--no-signal", help="Only groups whose scores are all equal.")] = False,
    as_json: AsJson = False,
    fields: FieldNames = DEFAULT_FIELDS,
) -> None:
    """List the groups of a step: the rollouts of one prompt with their scores.

    Groups are formed of the records that --where and the like select. --worst, --best, --random and --limit count
    groups; the score of a group is its mean.

    A group whose scores are all equal gives GRPO no gradient. Rollouts form a group by their uid if several share
    one, otherwise by their prompt.

    Examples:

    - `verl-rollout-dump groups DIR`
    - `verl-rollout-dump groups DIR --step 7 --no-signal`
    - `verl-rollout-dump groups DIR --step 1-10 --worst 5`
    """
    with opened_selection(directory, fields, selection.filters) as dump:
        steps = selection.steps(dump)
        with progress_bar("indexing", dump.size) as advance:
            if len(steps) > 1:
                dump.make_index(WORKERS, advance)
        found = [group for number in steps for group in groups_of_step(dump, number) if len(group.indexes) > 1]
        matching = [group for group in found if group.has_signal is False or not no_signal]
        shown = select_groups(matching, selection)
        if as_json:
            print_json([{**group.as_json(), "prompt": _prompt_of(dump, group)} for group in shown])
            return
        _print_groups(dump, shown)
        _print_totals(dump, found, len(shown))


def _print_totals(dump: Dump, found: list[Group], shown: int) -> None:
    """Print how many groups there are, and how many have no signal."""
    silent = sum(group.has_signal is False for group in found)
    undecided = sum(group.has_signal is None for group in found)
    null = f", {undecided} with null scores" if undecided else ""
    why = why_no_scores(dump) if undecided == len(found) and found else None
    if why:
        console().print(Text(f"{len(found)} groups; {why}"), soft_wrap=True)
        return
    console().print(f"{len(found)} groups, {silent} without signal{null}; {shown} shown")


def _prompt_of(dump: Dump, group: Group) -> str:
    """Return the prompt of a group."""
    return dump.fields.text(dump.raw_record(group.step, group.indexes[0]), "prompt")


def _print_groups(dump: Dump, shown: list[Group]) -> None:
    """Print one row per group."""
    rows: list[list[Cell]] = []
    prompts = [_prompt_of(dump, group) for group in shown]
    labels = PromptLabels(prompts)
    for group, prompt in zip(shown, prompts, strict=True):
        scores = " ".join("-" if score is None else f"{score:.3g}" for score in group.scores[:_SCORES_SHOWN])
        more = " …" if len(group.scores) > _SCORES_SHOWN else ""
        style = "yellow" if group.has_signal is False else ""
        place = [str(group.step), str(group.indexes[0]), figure(group.mean)]
        rows.append([*place, Text(scores + more, style=style), Text(labels.label(prompt, 100))])
    print_table(_COLUMNS, rows)
