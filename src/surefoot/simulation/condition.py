"""Conditions in study files, such as ``n_arms * margin < 2``: read as an expression, never run as code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from surefoot.rules import RuleError

LONGEST = 300
"""Number of signs that a condition may have."""
RULE = "be a condition such as 'n_arms * margin < 2 and horizon >= 1000'"

COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.In: lambda one, many: one in many, ast.NotIn: lambda one, many: one not in many,
}  # fmt: skip
COMPUTED: dict[type[ast.operator], Callable[[float, float], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: pow,
}  # fmt: skip


class Condition:
    """A condition on named values: comparisons, ``and``, ``or``, ``not``, ``in [...]`` and arithmetic.

    Examples
    --------
    >>> Condition("n_arms * margin < 2 or id == 'mine'").holds({"n_arms": 5, "margin": 0.5, "id": "mine"})
    True
    """

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            if len(text) > LONGEST:
                raise ValueError
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise RuleError("where", RULE, text) from None

    def holds(self, values: Mapping[str, Any]) -> bool:
        """True if the values meet the condition."""
        try:
            answer = evaluated(self._tree, values)
        except (TypeError, ArithmeticError) as error:
            raise RuleError(
                "where", "be computable for every combination", self._text, f"{self._text!r}: {error}"
            ) from None
        except RecursionError:
            raise RuleError("where", RULE, self._text) from None
        if not isinstance(answer, bool):
            raise RuleError("where", RULE, self._text)
        return answer


def evaluated(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of an expression; any form that is not listed here is refused."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Name(id=name):
            raise RuleError("where", f"use only the names {', '.join(values)}", name)
        case ast.List(elts=many) | ast.Tuple(elts=many):
            return [evaluated(one, values) for one in many]
        case ast.BoolOp(op=joint, values=parts):
            each = (truth(evaluated(part, values)) for part in parts)
            return all(each) if isinstance(joint, ast.And) else any(each)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return not truth(evaluated(inner, values))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -number(evaluated(inner, values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTED:
            return number(COMPUTED[type(op)](number(evaluated(left, values)), number(evaluated(right, values))))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in COMPARED for op in ops):
            terms = [evaluated(one, values) for one in (left, *others)]
            return all(bool(COMPARED[type(op)](terms[i], terms[i + 1])) for i, op in enumerate(ops))
    raise RuleError("where", RULE, ast.unparse(node))


def number(value: Any) -> float:
    """The value if it is a number; as a float, so that no power takes forever."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def truth(value: Any) -> bool:
    """The value if it is true or false."""
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value
