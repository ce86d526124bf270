"""`schema`: the JSON Schema of a record."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from verl_rollout_dump.cli.output import console


def schema(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OVERRIDES]...", help="Overrides of the node: rollout_dump/fields=core, ..."),
    ] = None,
) -> None:
    """Print the JSON Schema (2020-12) of a record, for a config.

    Every line of a dump with that config validates against it.

    Examples:

    verl-rollout-dump schema > rollout.schema.json

    verl-rollout-dump schema rollout_dump/fields=core rollout_dump.serialization.non_finite=string
    """
    from hydra import compose, initialize_config_module
    from hydra.errors import HydraException

    from verl_rollout_dump.config import ConfigError, load_config
    from verl_rollout_dump.dump.record_schema import record_schema

    try:
        with initialize_config_module("verl_rollout_dump.conf", version_base=None):
            config = load_config(compose(overrides=["+rollout_dump=default", *(overrides or [])]))
    except (ConfigError, HydraException) as error:
        typer.echo(f"verl-rollout-dump: {error}", err=True)
        raise typer.Exit(2) from error
    console().print(json.dumps(record_schema(config), indent=2), soft_wrap=True)
