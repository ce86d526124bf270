"""The keys of the viewer: what they do, and how the help tells it."""

from __future__ import annotations

from textual.binding import Binding, BindingType

BINDINGS: list[BindingType] = [
    Binding("question_mark", "help", "help"),
    Binding("slash", "ask('search')", "search"),
    Binding("n", "find(1)", "next", show=False),
    Binding("N", "find(-1)", "previous", show=False),
    Binding("f", "ask('filter')", "filter"),
    Binding("s", "sort", "sort"),
    Binding("less_than_sign,comma", "step(-1)", "step", show=False),
    Binding("greater_than_sign,full_stop", "step(1)", "step", show=False),
    Binding("left_square_bracket", "group(-1)", "group", show=False),
    Binding("right_square_bracket", "group(1)", "group", key_display="[ ]"),
    Binding("m", "mark", "mark"),
    Binding("c", "compare", "compare"),
    Binding("y", "copy_response", "copy"),
    Binding("Y", "copy_record", "copy record", show=False),
    Binding("F", "follow", "follow"),
    Binding("escape", "leave_input", "back", show=False),
    Binding("q", "quit", "quit"),
]

MEANINGS = (
    ("↑ ↓  j k  PgUp PgDn  g G", "move in a list, or in the record"),
    ("tab  shift+tab", "to the next, the previous part"),
    ("< >", "the previous, the next step"),
    ("[ ]", "the previous, the next group"),
    ("/", "search in prompts and responses; n, N: the next, the previous that holds it"),
    ("f", "filter: score < 0.2 and acc == false   (an empty filter shows all)"),
    ("s", "sort: groups, worst first, best first, longest first"),
    ("m", "mark a record; c compares the marked one with this one, side by side"),
    ("y", "copy the response (Y: the whole record as JSON)"),
    ("F", "follow: go to new steps as they come"),
    ("? q", "this help; leave"),
)
