"""Plain sums that a question may consist of: no tool is needed for them."""

import ast
import re
from decimal import Decimal, DivisionByZero, InvalidOperation

from services.runtime.expressions.quantities import parse_number
from services.understudy.words import fold

_ARITHMETIC = re.compile(
    r"^[\s¿¡]*(?:(?:cuanto|cuantos?) (?:es|son|da|suman?)|how much is|what is|what s|calculate|"
    r"calcula|compute|que es)?\s*(?P<sum>[\d.,\s()+*/x×÷^-]+|[\d.,]+(?:\s*(?:mas|menos|por|"
    r"entre|dividido (?:por|entre)|plus|minus|times|divided by|multiplied by|"
    r"multiplicado por)\s*[\d.,]+)+)\s*[?=.]*\s*$"
)
_SPOKEN = (
    ("dividido por", "/"),
    ("dividido entre", "/"),
    ("divided by", "/"),
    ("multiplied by", "*"),
    ("multiplicado por", "*"),
    ("mas", "+"),
    ("plus", "+"),
    ("menos", "-"),
    ("minus", "-"),
    ("por", "*"),
    ("times", "*"),
    ("entre", "/"),
    ("x", "*"),
    ("×", "*"),
    ("÷", "/"),
)


def arithmetic(text: str) -> Decimal | None:
    """The value of a plain sum such as `what is 12 * 7`; None when the text is none."""
    match = _ARITHMETIC.match(fold(text)[:120])
    if not match:
        return None
    written = match["sum"]
    for word, sign in _SPOKEN:
        written = written.replace(word, sign)
    if not re.search(r"[\d)]\s*[-+*/]\s*\(*\s*\d", written) or "**" in written or "//" in written:
        return None
    written = re.sub(r"\d[\d.,]*", lambda number: str(parse_number(number[0].rstrip(".,")) or 0), written)
    try:
        return _value(ast.parse(written.strip(), mode="eval").body)
    except (SyntaxError, ValueError, InvalidOperation, DivisionByZero, RecursionError):
        return None


def _value(node: ast.expr) -> Decimal:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return Decimal(str(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if not isinstance(node, ast.BinOp):
        raise ValueError("not a plain sum")
    left, right = _value(node.left), _value(node.right)
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case _:
            raise ValueError("not a plain sum")
