"""Where the parts of the viewer stand."""

CSS = """
#left { width: 28; border-right: solid $panel; }
#curve { height: 3; margin: 0 1; }
#steps { height: 1fr; }
#records { width: 2fr; max-width: 70; border-right: solid $panel; }
#right { width: 3fr; }
RecordPane { width: 1fr; padding: 0 1; }
RecordPane:focus { background: $boost; }
#marked { display: none; border-right: solid $panel; }
#status { height: 1; background: $panel; padding: 0 1; }
#question { display: none; border: none; height: 1; background: $boost; }
"""
