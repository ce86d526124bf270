"""`doctor`: check whether the dump of a training would work."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from verl_rollout_dump.cli.arguments import AsJson
from verl_rollout_dump.cli.exit_codes import DONE, WRONG
from verl_rollout_dump.cli.output import console, print_json

_SIGNS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "wrong": ("WRONG", "bold red")}


def doctor(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OVERRIDES]...", help="The arguments that you would give to python -m verl.trainer.main_ppo."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check whether the dump of a training would work, and print what to do if it would not.

    With verl: its version, how the plugin is loaded, every trainer, the config as verl composes it with your
    arguments, and the directory, into which one record is written and read back. This takes half a minute, since
    verl is imported. Without verl: what plain Python and TRL need. Exit code 1 if a dump would not work.

    Examples:

    verl-rollout-dump doctor trainer.rollout_data_dir=out

    verl-rollout-dump doctor --config-name my_training trainer.rollout_data_dir=out

    verl-rollout-dump doctor -m trainer.rollout_data_dir=out +rollout_dump=default rollout_dump/path=per_run
    """
    from verl_rollout_dump.doctor import examine

    checks = []
    for check in examine(arguments or []):
        checks.append(check)
        if not as_json:
            sign, style = _SIGNS[check.outcome]
            line = Text.assemble((f"{sign:<6}", style), (f"{check.name}: ", "bold"), check.found)
            console().print(line, soft_wrap=True)
            if check.remedy:
                console().print(Text(f"      -> {check.remedy}", style=style), soft_wrap=True)
    is_wrong = any(check.outcome == "wrong" for check in checks)
    if as_json:
        print_json({"ok": not is_wrong, "checks": [vars(check) for check in checks]})
    raise typer.Exit(WRONG if is_wrong else DONE)
