"""The expressions of `--where`: a small language over the fields of a record. Nothing in it can run code.

    score < 0.2 and acc == false
    (output contains "wait" or len(output) > 4000) and not reward.format == 1
    `rewards/total` >= 0.5 and gts in ["4", "7"] and uid startswith "8f"

Comparisons: `== != < <= > >=`, `contains` (a text in a text, an item in a list), `startswith`, `in [..]`. `and`, `or`,
`not` and parentheses join them. A name is a field, with dots into nested objects; in backticks it may hold any
character. A field alone is true where its value is. `len(..)` is the length of a text (characters), list or object.

A field that a record lacks is null. null equals null alone; an order between values that have none (null, a text and
a number) is false, never an error. true and false equal 1 and 0, as verl writes some of them.
"""

from verl_rollout_dump.analysis.where.errors import WhereError
from verl_rollout_dump.analysis.where.grammar import Condition, parse_where

__all__ = ["Condition", "WhereError", "parse_where"]
