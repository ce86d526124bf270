"""Turn verl's output into one line for each phase and each step."""

from __future__ import annotations

import re
from collections.abc import Mapping

# What verl 0.9.1 prints when a phase has ended -> what is shown; groups of the pattern are filled in.
_PHASES: dict[str, str] = {
    r"All configuration checks passed": "configuration checked, starting Ray",
    r"Started a local Ray instance": "Ray is up, loading the data",
    r"Total training steps: (\d+)": "data loaded, {0} steps to train",
    r"contains ([\d.]+[KMB]?) parameters": "model loaded, {0} parameters",
    r"Training Progress: +0%": "rollout server is up, training starts",
}

_STEP = re.compile(r"\bstep:(\d+) - (.*)")
METRIC = re.compile(r"([\w/]+):(?:np\.\w+\()?(-?[\d.]+(?:e[+-]?\d+)?|nan|inf)")

# verl's metric -> what is shown of it.
_STEP_METRICS: dict[str, str] = {
    "critic/score/mean": "mean score {:.3f}",
    "response_length/mean": "{:.0f} tokens a response",
    "timing_s/gen": "generation {:.1f} s",
    "timing_s/update_actor": "update {:.1f} s",
}

# Lines that are printed dozens of times and do not help to find an error.
_NOISE = re.compile(
    r"target_num_threads|engine is not available|Continuous Token builder|warnings\.warn\(|"
    r"Platform override from VERL_PLATFORM|is_fx_tracing|Loading weights:"
)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class ProgressReader:
    """Reads verl's output line by line; each phase is reported once."""

    def __init__(self) -> None:
        self._not_seen = {re.compile(pattern): text for pattern, text in _PHASES.items()}

    def read(self, line: str) -> str | None:
        """Return what to show for a line of verl's output; None for most."""
        step = _STEP.search(line)
        if step is not None:
            return _describe_step(step[1], dict(METRIC.findall(step[2])))
        for pattern, text in self._not_seen.items():
            match = pattern.search(line)
            if match is not None:
                del self._not_seen[pattern]
                return text.format(*match.groups())
        return None


def _describe_step(step: str, metrics: Mapping[str, str]) -> str:
    """Return one line about a step, from verl's metrics of it (name -> number as text)."""
    shown = [text.format(float(metrics[name])) for name, text in _STEP_METRICS.items() if name in metrics]
    return f"step {step}: " + ", ".join(shown) if shown else f"step {step}"


def informative_tail(text: str, lines: int) -> str:
    """Return the last lines of a log, without colours, empty lines and the usual noise."""
    kept = [line for line in ANSI.sub("", text).splitlines() if line.strip() and not _NOISE.search(line)]
    return "\n".join(kept[-lines:])
