"""Options that several commands share, declared once: which fields have which role, and which records are meant.

A command with a parameter `fields: FieldNames` or `selection: Selection` gets the options of that group in its place.
The default of the parameter gives the defaults of the options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from verl_rollout_dump.analysis.selection import Selection
from verl_rollout_dump.reader import FieldNames

_FIELDS = "Fields, if their names do not say what they are"
_RECORDS = "Which records"


class _OptionGroup(NamedTuple):
    """Options that make one argument: `make` is called with the values by name; `options` are type and declaration."""

    make: Callable[..., Any]
    options: Mapping[str, tuple[Any, Any]]


def _column(name: str, explanation: str) -> tuple[Any, Any]:
    return str | None, typer.Option(f"--{name}", metavar="COLUMN", help=explanation, rich_help_panel=_FIELDS)


def _text(*names: str, metavar: str, explanation: str) -> tuple[Any, Any]:
    return str | None, typer.Option(*names, metavar=metavar, help=explanation, rich_help_panel=_RECORDS)


def _number(*names: str, explanation: str, low: int = 1) -> tuple[Any, Any]:
    option = typer.Option(*names, metavar="N", min=low, help=explanation, rich_help_panel=_RECORDS, show_default=True)
    return int | None, option


_GROUPS = {
    "fields": _OptionGroup(
        FieldNames,
        {
            "score": _column("score", "The field with the score; dots reach into objects: reward.total."),
            "response": _column("response", "The field with the response."),
            "prompt": _column("prompt", "The field with the prompt."),
            "group": _column("group", "The field that the rollouts of one prompt share."),
        },
    ),
    "selection": _OptionGroup(
        Selection,
        {
            "step": _text("--step", "-s", metavar="STEPS", explanation='One step or several: "7", "1-3,9", "last".'),
            "index": _number("--index", "-i", low=0, explanation="The record with this index in its step, from 0."),
            "uid": _text("--uid", metavar="TEXT", explanation="Records whose uid starts with this text."),
            "grep": _text("--grep", metavar="REGEX", explanation="Records whose prompt or response matches."),
            "where": _text(
                "--where", metavar="EXPRESSION", explanation="Records for which this holds: 'score < 0.2 and not acc'."
            ),
            "worst": _number("--worst", explanation="The N lowest scores."),
            "best": _number("--best", explanation="The N highest scores."),
            "random": _number("--random", explanation="N random ones."),
            "seed": _number("--seed", low=0, explanation="With --random: the same seed gives the same ones."),
            "limit": _number("--limit", "-n", low=0, explanation="At most N."),
        },
    ),
}


def with_option_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with options in place of its parameters that are named as an option group."""
    signature = inspect.signature(command)
    groups = {name: _GROUPS[name] for name in signature.parameters if name in _GROUPS}

    @wraps(command)
    def run(**arguments: Any) -> Any:
        for name, group in groups.items():
            arguments[name] = group.make(**{option: arguments.pop(option) for option in group.options})
        return command(**arguments)

    hints = get_type_hints(command, include_extras=True)
    parameters = [
        made for name, parameter in signature.parameters.items() for made in _parameters(name, parameter, hints[name])
    ]
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters(name: str, parameter: inspect.Parameter, hint: Any) -> Iterator[inspect.Parameter]:
    """Yield the parameters that stand for one of a command: itself, or the options of its group."""
    if name not in _GROUPS:
        yield parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
        return
    for option, (kind, declaration) in _GROUPS[name].options.items():
        default = getattr(parameter.default, option)
        annotation: Any = Annotated.__class_getitem__((kind, declaration))  # type: ignore[attr-defined]
        yield inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
