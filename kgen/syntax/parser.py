"""Text to syntax tree: LALR(1), the tree built while parsing, sizes bounded before it starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from kgen.diagnostics import Diagnostic, KgenError, Source, Span
from kgen.semantics import INT_MAX, MAX_DEPTH
from kgen.syntax import ast
from kgen.syntax.position import Positions

MAX_LENGTH = 4096
"""Characters in one expression."""

_OPERANDS = frozenset({"INT", "FLOAT", "STRING", "NAME", "TRUE", "FALSE", "LPAR"})
_USER_NAMES = {
    "$END": "the end of the expression",
    "RPAR": "')'",
    "RSQB": "']'",
    "LPAR": "'('",
    "LSQB": "'['",
    "COMMA": "','",
    "DOT": "'.'",
    "IF": "'if'",
    "ELSE": "'else'",
    "IN": "'in'",
    "NAME": "a name",
    "COMPARISON": "a comparison",
}
_OPERATORS = frozenset(
    {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "AND", "OR", "IMPLIES", "NOT", "FLOOR_DIVIDE"}
)
_FOREIGN = {
    "&&": "write 'and'",
    "||": "write 'or'",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not'",
    "=": "write '==' to compare",
    "?": "write 'a if condition else b'",
    "'": "the quote is not closed",
    '"': "the quote is not closed",
}

KEYWORDS = frozenset({"and", "or", "not", "implies", "in", "if", "else", "true", "false"})
"""Words of the language; they cannot be names."""
_WORD = re.compile(r"[A-Za-z_]+")

_positions: ContextVar[Positions] = ContextVar("positions")


@lru_cache(maxsize=4096)
def parse_expr(text: str, span: Span | None = None) -> ast.Expr:
    """The syntax tree of `text`, which stands at `span` in its file.

    Raises `KgenError` with one diagnostic at the exact token: K110 where the text does not
    parse, K111 where it is too long or nests too deep, K112 for a number out of range.
    """
    if span is None:
        source = Source("<expression>", text)
        span = Span(source, 1, 1, text.count("\n") + 1, len(text) - text.rfind("\n"))
    if len(text) > MAX_LENGTH:
        message = f"the expression has {len(text)} characters; at most {MAX_LENGTH} are allowed"
        raise _error("K111", message, span, "name parts of it under 'let'")
    positions = Positions(text, span)
    _check_nesting(text, positions)
    token = _positions.set(positions)
    try:
        tree: ast.Expr = _parser().parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        raise _syntax_error(error, text, positions) from None
    finally:
        _positions.reset(token)
    return tree


def _check_nesting(text: str, positions: Positions) -> None:
    depth = 0
    for place, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if depth > MAX_DEPTH:
            raise _too_deep(positions.span(place, place + 1))


def _too_deep(span: Span) -> KgenError:
    return _error(
        "K111", f"the expression nests deeper than {MAX_DEPTH} levels", span, "name parts of it under 'let'"
    )


def _error(code: str, message: str, span: Span, hint: str | None = None) -> KgenError:
    return KgenError(Diagnostic(code, message, span, hint))


def _syntax_error(error: UnexpectedInput, text: str, positions: Positions) -> KgenError:
    """The one place where the text stops making sense, and what could have stood there."""
    wanted = _expected(set(error.accepts or ())) if isinstance(error, UnexpectedToken) else ""
    if isinstance(error, UnexpectedCharacters):
        start = error.pos_in_stream or 0
        end, message = start + 1, f"unexpected character {text[start]!r}"
    elif isinstance(error, UnexpectedToken) and error.token.type != "$END":
        start, end = error.token.start_pos or 0, error.token.end_pos or 0
        message = f"unexpected '{_shorten(error.token)}'; expected {wanted}"
    elif not text.strip():
        start, end, message = 0, 1, "the expression is empty"
    else:
        start = len(text.rstrip())
        end, message = start + 1, f"the expression ends too early; expected {wanted}"
        if positions.following == ",":
            hint = "the ',' ended it: inside braces or brackets write it in quotes"
            return _error("K110", message, positions.span(start, end), hint)
    return _error("K110", message, positions.span(start, end), _foreign_hint(text, start))


def _foreign_hint(text: str, start: int) -> str | None:
    """What to write instead of a habit from another language."""
    rest = text[start:]
    if text[max(start - 1, 0) :].startswith("**"):
        return "write exp2(x), or x * x"
    for sign, hint in _FOREIGN.items():
        if rest.startswith(sign):
            return hint
    word = _WORD.match(rest)
    if word and word[0].lower() in KEYWORDS and word[0] not in KEYWORDS:
        return f"write '{word[0].lower()}'"
    return None


def _expected(terminals: set[str]) -> str:
    """What could have stood here, in the user's words."""
    if terminals >= _OPERANDS:
        return "a value" if "RPAR" not in terminals else "a value or ')'"
    words = ["an operator"] if terminals & _OPERATORS else []
    words += sorted(
        word
        for name, word in _USER_NAMES.items()
        if name in terminals and (not words or name in ("$END", "RPAR", "RSQB", "COMMA", "ELSE"))
    )
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1] if words else ""


class _Builder(Transformer[Token, ast.Expr]):
    """Builds the tree bottom-up as the parser reduces; children are tokens and finished nodes."""

    def integer(self, parts: Sequence[Token]) -> ast.Expr:
        digits, span = str(parts[0]), _span(parts)
        if len(digits.lstrip("0")) > 19 or int(digits) > INT_MAX:
            raise _error("K112", f"{_shorten(digits)} does not fit a 64-bit int", span)
        return ast.Int(int(digits), span=span)

    def real(self, parts: Sequence[Token]) -> ast.Expr:
        value = float(parts[0])
        if value == float("inf"):
            raise _error("K112", f"{_shorten(parts[0])} does not fit a float", _span(parts))
        return ast.Float(value, span=_span(parts))

    def string(self, parts: Sequence[Token]) -> ast.Expr:
        return ast.Str(str(parts[0])[1:-1], span=_span(parts))

    def truth(self, parts: Sequence[Token]) -> ast.Expr:
        return ast.Bool(str(parts[0]) == "true", span=_span(parts))

    def name(self, parts: Sequence[Token]) -> ast.Expr:
        return ast.Name(str(parts[0]), span=_span(parts))

    def attribute(self, parts: Sequence[Token]) -> ast.Expr:
        base = ast.Name(str(parts[0]), span=_span(parts[:1]))
        return ast.Attr(base, str(parts[2]), _span(parts[2:]), span=_span(parts))

    def call(self, parts: Sequence[Any]) -> ast.Expr:
        args = tuple(parts[2]) if len(parts) == 4 else ()
        return _node(ast.Call(str(parts[0]), args, _span(parts[:1]), span=_span(parts)))

    def group(self, parts: Sequence[Any]) -> ast.Expr:
        inner: ast.Expr = parts[1]
        return replace(inner, span=_span(parts))

    def items(self, parts: Sequence[Any]) -> tuple[ast.Expr, ...]:
        return tuple(part for part in parts if isinstance(part, ast.Expr))

    def index(self, parts: Sequence[Any]) -> ast.Expr:
        return _node(ast.Index(parts[0], parts[2], span=_span(parts)))

    def unary(self, parts: Sequence[Any]) -> ast.Expr:
        op = "neg" if parts[0] == "-" else "not"
        return _node(ast.Unary(op, parts[1], span=_span(parts)))

    def binary(self, parts: Sequence[Any]) -> ast.Expr:
        return _node(ast.Binary(str(parts[1]), parts[0], parts[2], span=_span(parts)))

    def compare(self, parts: Sequence[Any]) -> ast.Expr:
        ops = tuple(str(part) for part in parts[1::2])
        return _node(ast.Compare(ops, tuple(parts[::2]), span=_span(parts)))

    def member(self, parts: Sequence[Any]) -> ast.Expr:
        return _node(ast.In(parts[0], parts[3], span=_span(parts)))

    def not_member(self, parts: Sequence[Any]) -> ast.Expr:
        inside = ast.In(parts[0], parts[4], span=_span(parts))
        return _node(ast.Unary("not", inside, span=_span(parts)))

    def conditional(self, parts: Sequence[Any]) -> ast.Expr:
        return _node(ast.If(parts[2], parts[0], parts[4], span=_span(parts)))


def _node(expr: ast.Expr) -> ast.Expr:
    if expr.depth > MAX_DEPTH:
        raise _too_deep(expr.span)
    return expr


def _span(parts: Sequence[Any]) -> Span:
    first, last = _place(parts[0]), _place(parts[-1])
    return first.to(last)


def _place(part: Token | ast.Expr) -> Span:
    if isinstance(part, ast.Expr):
        return part.span
    return _positions.get().span(part.start_pos or 0, part.end_pos or 0)


def _shorten(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:20]}..."


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("expr.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="basic",
        keep_all_tokens=True,
        transformer=_Builder(),
        maybe_placeholders=False,
    )
