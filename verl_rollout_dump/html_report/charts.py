"""Charts as SVG, drawn by Vega-Lite (vl-convert, without a browser or network).

Names from a dump appear only as titles; the fields of the data have names of our own.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from verl_rollout_dump.analysis.stats import NumberSummary, StepStats
from verl_rollout_dump.reader.optional_imports import require

_VEGA_LITE = "6.1"
_WIDTH, _HEIGHT = 420, 180  # pixels
_POINTS = 2000  # steps that a curve shows; of more, every n-th
_BINS = 30
_COLOUR = "#2563eb"
_AXES = {
    "grid": True,
    "gridColor": "#e5e7eb",
    "domainColor": "#9ca3af",
    "labelColor": "#4b5563",
    "titleColor": "#4b5563",
}
_Rows = list[dict[str, Any]]


def _chart(title: str, layers: Sequence[dict[str, Any]], rows: _Rows) -> str:
    """Return a chart as an `<img>`; `layers` are Vega-Lite layers over `rows`."""
    vl_convert = require("vl_convert", "report")
    spec = {
        "title": {"text": title, "anchor": "start", "fontSize": 13, "color": "#111827"},
        "width": _WIDTH,
        "height": _HEIGHT,
        "background": "white",
        "data": {"values": rows},
        "layer": list(layers),
        "config": {"axis": _AXES, "view": {"stroke": None}, "font": "sans-serif"},
    }
    svg = vl_convert.vegalite_to_svg(spec, vl_version=_VEGA_LITE)
    data = base64.b64encode(svg.encode()).decode("ascii")
    return f'<img alt="{html.escape(title)}" src="data:image/svg+xml;base64,{data}">'


def _axis(field: str, title: str) -> dict[str, Any]:
    """Return the encoding of a number along an axis."""
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False, "nice": False}}


def _layer(mark: dict[str, Any], y: str, y_title: str, **more: Any) -> dict[str, Any]:
    """Return a layer over the steps."""
    return {"mark": mark, "encoding": {"x": _axis("step", "step"), "y": _axis(y, y_title), **more}}


def summary_chart(title: str, steps: Sequence[int], figures: Sequence[NumberSummary]) -> str:
    """Return the curve of a column of numbers: mean, one standard deviation around it, lowest and highest."""
    rows = [
        {
            "step": step,
            "mean": found.mean,
            "low": found.mean - (found.std or 0.0),
            "high": found.mean + (found.std or 0.0),
            "min": found.min,
            "max": found.max,
        }
        for step, found in thinned(list(zip(steps, figures, strict=True)))
        if found.mean is not None
    ]
    dashes = {"type": "line", "color": "#9ca3af", "strokeDash": [2, 3]}
    mark = {"type": "line", "color": _COLOUR, "point": len(rows) < 40}
    layers = [
        _layer({"type": "area", "color": _COLOUR, "opacity": 0.15}, "low", "", y2={"field": "high"}),
        _layer(dashes, "min", ""),
        _layer(dashes, "max", ""),
        _layer(mark, "mean", ""),
    ]
    return _chart(f"{title}: mean, ± std, min, max", layers, rows)


def shares_chart(found: Sequence[StepStats]) -> str:
    """Return the curves of the shares of problematic responses and groups."""
    rows: _Rows = []
    for stats in thinned(found):
        shares = {
            "empty": stats.empty,
            "duplicated": stats.duplicated,
            "truncated": stats.truncated,
            "groups without signal": stats.without_signal,
        }
        rows += [
            {"step": stats.step, "what": what, "share": share} for what, share in shares.items() if share is not None
        ]
    colour = {"field": "what", "type": "nominal", "title": None, "legend": {"orient": "bottom", "columns": 2}}
    mark = {"type": "line", "point": len(found) < 40}
    return _chart("Share of responses, and of groups", [_layer(mark, "share", "", color=colour)], rows)


def histogram(title: str, scores: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    """Return the distribution of scores."""
    finite = scores[np.isfinite(scores)]
    counts, edges = np.histogram(finite, bins=min(_BINS, max(1, len(np.unique(finite)) * 2)))
    rows = [
        {"from": float(low), "to": float(high), "count": int(count)}
        for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True)
    ]
    bars = {
        "mark": {"type": "bar", "color": _COLOUR},
        "encoding": {
            "x": {**_axis("from", "score"), "bin": {"binned": True}},
            "x2": {"field": "to"},
            "y": {"field": "count", "type": "quantitative", "title": "records"},
        },
    }
    return _chart(title, [bars], rows)


def thinned(values: Sequence[Any]) -> Sequence[Any]:
    """Return at most `_POINTS` values, evenly spread, with the last one."""
    if len(values) <= _POINTS:
        return values
    return [values[round(place)] for place in np.linspace(0, len(values) - 1, _POINTS)]
