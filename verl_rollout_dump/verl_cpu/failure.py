"""Find the exceptions that ended a training in verl's output, among hundreds of lines of several processes."""

from __future__ import annotations

import re

from verl_rollout_dump.verl_cpu.progress import ANSI

_MOST_CAUSES = 5
# How Ray marks the lines of its processes.
_PROCESS = re.compile(r"^\([\w.:]+ pid=\d+[^)]*\) ")
# The last line of a traceback. Ray's wrapping errors do not count: the wrapped ones follow on their own lines.
_RAISED = re.compile(r"^(?:[a-zA-Z_]\w*\.)*(?!RayTaskError)[A-Z]\w*(?:Error|Exception|Interrupt)(?:\(.*?\))?: \S")
# Parts that differ between runs and processes.
_CHANCE = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+")
# A message of verl's that does not say what to do -> what to do.
_ADVICE = {
    re.compile(r"PicklingError.*custom_module_"): "an object of a class from the reward function's file cannot be sent "
    "between verl's processes: return numbers, text, lists and dicts instead",
}


def causes(output: str) -> list[str]:
    """Return the exceptions in verl's output, each once and in order, then the advice that applies."""
    found: dict[str, str] = {}
    for line in ANSI.sub("", output).splitlines():
        said = _PROCESS.sub("", line).strip()
        if _RAISED.match(said):
            found.setdefault(_CHANCE.sub("#", said), said)
    raised = list(found.values())[:_MOST_CAUSES]
    return raised + [advice for pattern, advice in _ADVICE.items() if any(map(pattern.search, raised))]
