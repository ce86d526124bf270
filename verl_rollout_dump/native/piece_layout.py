"""`struct piece` of join.c: the layout that C and Python share. setup.py passes these numbers to the C compiler."""

# The bytes of a piece that are stored in its struct, and the size of the struct: head, length, marks.
HEAD = 14
STORED = 16
# Marks, as bits: the piece begins or ends inside a character; it may complete a line separator.
SPLIT = 1
COMPLETES_SEPARATOR = 2
