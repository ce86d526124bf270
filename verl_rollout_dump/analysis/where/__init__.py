"""The expressions of `--where`: a small language over the fields of a record that cannot run code.

    score < 0.2 and acc == false
    (output contains "wait" or len(output) > 4000) and not reward.format == 1
    output matches "answer is [0-9]+"
    `rewards/total` >= 0.5 and gts in ["4", "7"] and uid startswith "8f"

Comparisons: `== != < <= > >=`, `contains` (a text in a text, an item in a list), `startswith`, `in [..]`,
`matches` (a regular expression of Python, found anywhere in a text). They are
joined by `and`, `or`, `not` and parentheses. A name is a field, with dots into nested objects; in backticks it may
contain any character. A field alone is true if its value is. `len(..)` is the length of a text (characters), list or
object.

A field that a record lacks is null. null equals only null; an order between values that cannot be ordered (null, a
text and a number) is false, never an error. true and false equal 1 and 0, since verl writes some of them so.
"""

from verl_rollout_dump.analysis.where.errors import WhereError
from verl_rollout_dump.analysis.where.grammar import Condition, parse_where

__all__ = ["Condition", "WhereError", "parse_where"]
