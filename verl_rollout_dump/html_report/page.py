"""The page: pieces of HTML. Every text from a dump goes through `_escaped`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from verl_rollout_dump.analysis.formatting import json_text, printable
from verl_rollout_dump.reader import Record
from verl_rollout_dump.reader.field_names import FieldNames

_LONGEST = 4000  # characters of a text
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #111827; background: #f9fafb; margin: 0 auto; max-width: 1100px;
       padding: 24px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 18px; margin: 36px 0 8px; } p { color: #4b5563; margin: 4px 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(480px, 1fr)); gap: 12px; }
.charts img { width: 100%; background: white; border: 1px solid #e5e7eb; border-radius: 8px; padding: 8px;
              box-sizing: border-box; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; background: white; font-size: 13px; width: 100%; }
td, th { border: 1px solid #e5e7eb; padding: 4px 8px; text-align: right; } td.text { text-align: left; }
details { background: white; border: 1px solid #e5e7eb; border-radius: 8px; margin: 8px 0; padding: 8px 12px; }
summary { cursor: pointer; } pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f3f4f6; padding: 8px;
       border-radius: 6px; font-size: 13px; margin: 4px 0 10px; } b { color: #374151; }
"""


def _escaped(text: str, longest: int | None = _LONGEST) -> str:
    """Return a text as HTML that only shows it; control characters become escapes."""
    return html.escape(printable(text, longest), quote=True)


def page(title: str, sections: Iterable[str]) -> Iterable[str]:
    """Yield the document in pieces."""
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escaped(title)}</title>\n<style>{_STYLE}</style></head><body>\n"
    )
    for section in sections:
        yield section + "\n"
    yield "</body></html>\n"


def heading(title: str, explanation: str = "") -> str:
    """Return the heading of a section."""
    return f"<h2>{_escaped(title)}</h2>" + (f"<p>{_escaped(explanation)}</p>" if explanation else "")


def charts(images: Iterable[str]) -> str:
    """Return charts side by side."""
    return f'<div class="charts">{"".join(images)}</div>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells that are not numbers are aligned left."""
    head = "".join(f"<th>{_escaped(cell)}</th>" for cell in headings)
    body = "".join(f"<tr>{''.join(map(_table_cell, row))}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _table_cell(text: str) -> str:
    """Return a cell of a table."""
    is_number = text.lstrip("+-").replace(".", "", 1).replace("/", "").replace(" %", "").isdigit()
    return f"<td{'' if is_number or not text else ' class=text'}>{_escaped(text)}</td>"


def record_details(title: str, record: Record, fields: FieldNames) -> str:
    """Return a record that opens on a click."""
    parts = [
        f"<b>{label}</b><pre>{_escaped(fields.text(record, role))}</pre>"
        for label, role in (("prompt", "prompt"), ("response", "response"), ("ground truth", "ground_truth"))
        if fields.value(record, role) is not None
    ]
    extras = "\n".join(f"{name} = {json_text(value)}" for name, value in fields.extras(record).items())
    parts += [f"<b>extras</b><pre>{_escaped(extras)}</pre>"] if extras else []
    return f"<details><summary>{_escaped(title)}</summary>{''.join(parts)}</details>"
