"""The options that choose fields: `--score`, `--response`, `--prompt`, `--group`.

A command with a parameter `fields: FieldNames` gets the four options in its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from verl_rollout_dump.reader import FieldNames

_PARAMETER = "fields"
_HELP = {
    "score": "The field with the score; dots reach into objects: reward.total.",
    "response": "The field with the response.",
    "prompt": "The field with the prompt.",
    "group": "The field that the rollouts of one prompt share.",
}
_PANEL = "Fields, if their names do not say what they are"


def with_field_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with one option per choice instead of `fields`; the command itself if it has no `fields`."""
    signature = inspect.signature(command)
    if _PARAMETER not in signature.parameters:
        return command

    @wraps(command)
    def run(**arguments: Any) -> Any:
        fields = FieldNames(**{name: arguments.pop(name) for name in _HELP})
        return command(**arguments, fields=fields)

    hints = get_type_hints(command, include_extras=True)
    given = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in signature.parameters.items()
        if name != _PARAMETER
    ]
    parameters = [*given, *map(_option, _HELP)]
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _option(name: str) -> inspect.Parameter:
    option = typer.Option(f"--{name}", metavar="COLUMN", help=_HELP[name], rich_help_panel=_PANEL)
    annotation = Annotated[str | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
