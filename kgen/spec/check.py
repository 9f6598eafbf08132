"""Types of expressions: every name, operator and call is checked, and every fault collected.

A part that is wrong gets the type `bad`, which agrees with everything, so that one mistake is
told once. Constants are folded on the way: what must divide by zero, overflow or leave the
domain of a function is reported at its token before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kgen.diagnostics import Collector, Span, choice_hint
from kgen.semantics import DTYPES, EvaluationError
from kgen.spec.scope import OPEN, Checked, Scope, fold, hint_for
from kgen.spec.types import (
    BAD,
    BOOL,
    FLOAT,
    INT,
    RECORDS,
    SIGNATURES,
    Signature,
    Type,
    accepts,
    article,
    join,
)
from kgen.syntax.ast import (
    Attr,
    Binary,
    Bool,
    Call,
    Compare,
    Expr,
    Float,
    If,
    In,
    Index,
    Int,
    Name,
    Str,
    Unary,
)

_BAD = Checked(BAD)


def check_expr(expr: Expr, scope: Scope, found: Collector, wanted: Type | None = None) -> Checked:
    """Check one expression; with `wanted`, also that its value can stand where that is expected.

    The result is `bad` where a fault was found, or where a name it uses is `bad` itself.
    """
    mine = Collector()
    checker = _Checker(scope, mine)
    checked = checker.infer(expr)
    if wanted is not None:
        checked = checker.expect(expr, checked, wanted)
    found.extend(mine.diagnostics)
    return _BAD if mine or checker.tainted else checked


class _Checker:
    def __init__(self, scope: Scope, found: Collector) -> None:
        self._scope, self._found = scope, found
        self._dead = 0
        self.tainted = False
        """Whether a name was met that is `bad`."""

    def infer(self, expr: Expr) -> Checked:
        match expr:
            case Int():
                return Checked(INT, expr.value)
            case Float():
                return Checked(FLOAT, expr.value)
            case Bool():
                return Checked(BOOL, expr.value)
            case Str():
                return Checked(Type("text", (expr.value,)), expr.value)
            case Name():
                return self._name(expr)
            case Attr():
                return self._attribute(expr)
            case Unary():
                return self._unary(expr)
            case Binary(op="and" | "or" | "implies"):
                return self._logic(expr)
            case Binary():
                return self._arithmetic(expr)
            case Compare():
                return self._compare(expr)
            case In():
                return self._member(expr)
            case If():
                return self._conditional(expr)
            case Call():
                return self._call(expr)
            case Index():
                return self._index(expr)
        raise TypeError(f"no rule for {type(expr).__name__}")

    def expect(self, expr: Expr, checked: Checked, wanted: Type, role: str = "") -> Checked:
        """`checked` where `wanted` is expected; otherwise the fault, once."""
        if not accepts(wanted, checked.type):
            needs = f"{role} needs {article(wanted)}" if role else f"expected {article(wanted)}"
            self._found.add("K208", f"{needs}; this is {article(checked.type)}", expr.span)
            return _BAD
        if wanted.word and checked.type.word and not self._check_words(expr, checked, wanted):
            return _BAD
        if wanted.kind == "float" and type(checked.value) is int:
            return Checked(FLOAT, float(checked.value))
        return checked

    def _check_words(self, expr: Expr, checked: Checked, wanted: Type) -> bool:
        """A quoted word must be a value of the type it meets."""
        given = checked.type.choices
        if given is None or wanted.choices is None:
            return True
        wrong = [word for word in given if word not in wanted.choices]
        if len(wrong) < len(given) or not given:
            return True
        message = (
            f"'{wrong[0]}' is no {_kind(wanted)} here"
            if checked.value is not None
            else (f"this {checked.type.kind} never has a value expected here")
        )
        self._found.add("K204", message, expr.span, choice_hint(wrong[0], wanted.choices))
        return False

    def _name(self, expr: Name) -> Checked:
        symbol = self._scope.get(expr.name)
        if symbol is not None:
            self.tainted = self.tainted or symbol.type == BAD
            return Checked(symbol.type, symbol.value)
        if OPEN in self._scope:
            self.tainted = True
            return _BAD
        hint = hint_for(expr.name, self._scope)
        self._found.add("K205", f"unknown name '{expr.name}'", expr.span, hint)
        return _BAD

    def _attribute(self, expr: Attr) -> Checked:
        base = self._name(expr.base)
        if base.type.kind == "bad":
            return _BAD
        fields = RECORDS.get(base.type.kind)
        if fields is None:
            records = " and ".join(f"a {kind}" for kind in RECORDS)
            what = self._scope[expr.base.name].what
            message = f"the {what} '{expr.base.name}' is {article(base.type)} and has no fields"
            self._found.add("K205", message, expr.name_span, f"only {records} have fields")
            return _BAD
        if expr.name not in fields:
            message = f"a {base.type.kind} has no field '{expr.name}'"
            self._found.add("K205", message, expr.name_span, choice_hint(expr.name, list(fields)))
            return _BAD
        return Checked(fields[expr.name])

    def _unary(self, expr: Unary) -> Checked:
        operand = self.infer(expr.operand)
        if expr.op == "not":
            operand = self.expect(expr.operand, operand, BOOL, "'not'")
            return self._fold(expr, BOOL, [operand])
        operand = self.expect(expr.operand, operand, Type("number"), "'-'")
        return self._fold(expr, operand.type, [operand])

    def _logic(self, expr: Binary) -> Checked:
        role = f"'{expr.op}'"
        left = self.expect(expr.left, self.infer(expr.left), BOOL, role)
        decided = left.value is (expr.op == "or") and left.value is not None
        if expr.op == "implies":
            decided = left.value is False
        with self._unreachable(decided):
            right = self.expect(expr.right, self.infer(expr.right), BOOL, role)
        if decided:
            return Checked(BOOL, expr.op != "and")
        return self._fold(expr, BOOL, [left, right])

    def _arithmetic(self, expr: Binary) -> Checked:
        wanted = INT if expr.op in ("//", "%") else Type("number")
        role = f"'{expr.op}'"
        left = self.expect(expr.left, self.infer(expr.left), wanted, role)
        right = self.expect(expr.right, self.infer(expr.right), wanted, role)
        if expr.op in ("/", "//", "%") and right.value == 0 and right.value is not None:
            return self._fault("K209", "division by zero", expr.right.span, BAD)
        both = FLOAT if expr.op == "/" else join(left.type, right.type) or BAD
        return self._fold(expr, both, [left, right])

    def _compare(self, expr: Compare) -> Checked:
        checked = [self.infer(operand) for operand in expr.operands]
        for place, op in enumerate(expr.ops):
            pair = expr.operands[place : place + 2]
            self._check_pair(op, pair, checked[place : place + 2])
        return self._fold(expr, BOOL, checked)

    def _check_pair(self, op: str, pair: Sequence[Expr], checked: Sequence[Checked]) -> None:
        left, right = checked[0].type, checked[1].type
        if op not in ("==", "!="):
            for operand, side in zip(pair, checked, strict=True):
                self.expect(operand, side, Type("number"), f"'{op}'")
            return
        if join(left, right) is None:
            message = f"cannot compare {article(left)} with {article(right)}"
            self._found.add("K208", message, pair[1].span)
        elif left.word and right.word and (left.kind, right.kind) != ("text", "text"):
            if left.kind == "text":
                self._check_words(pair[0], checked[0], right)
            else:
                self._check_words(pair[1], checked[1], left)

    def _member(self, expr: In) -> Checked:
        item = self.infer(expr.item)
        choices = [self.infer(choice) for choice in expr.choices]
        for choice, checked in zip(expr.choices, choices, strict=True):
            self._check_pair("==", [expr.item, choice], [item, checked])
        return self._fold(expr, BOOL, [item, *choices])

    def _conditional(self, expr: If) -> Checked:
        condition = self.expect(expr.condition, self.infer(expr.condition), BOOL, "'if'")
        with self._unreachable(condition.value is False):
            then = self.infer(expr.then)
        with self._unreachable(condition.value is True):
            otherwise = self.infer(expr.otherwise)
        both = join(then.type, otherwise.type)
        if both is None:
            message = f"the branches differ: {article(then.type)}, else {article(otherwise.type)}"
            self._found.add("K208", message, expr.otherwise.span)
            return _BAD
        if condition.value is None:
            return Checked(both)
        chosen = then if condition.value else otherwise
        value = float(chosen.value) if both == FLOAT and type(chosen.value) is int else chosen.value
        return Checked(both, value)

    def _call(self, expr: Call) -> Checked:
        args = [self.infer(arg) for arg in expr.args]
        signature = SIGNATURES.get(expr.function)
        if signature is None:
            message = f"unknown function '{expr.function}'"
            self._found.add("K206", message, expr.name_span, choice_hint(expr.function, list(SIGNATURES)))
            return _BAD
        if not signature.accepts(len(args)):
            message = f"{expr.function} takes {signature.arity}; {len(args)} given"
            self._found.add("K207", message, expr.name_span, f"write {expr.function}({signature})")
            return _BAD
        args = self._check_args(expr, signature, args)
        result = signature.result
        if result is None:
            result = BAD if any(arg.type == BAD for arg in args) else INT
            result = FLOAT if any(arg.type == FLOAT for arg in args) else result
        return self._fold(expr, result, args)

    def _check_args(self, expr: Call, signature: Signature, args: Sequence[Checked]) -> list[Checked]:
        role = f"{expr.function}()"
        result = []
        for place, (arg, checked) in enumerate(zip(expr.args, args, strict=True)):
            wanted = signature.args[min(place, len(signature.args) - 1)]
            if wanted.kind == "dtype":
                wanted = Type("dtype", tuple(DTYPES))
            checked = self.expect(arg, checked, wanted, role)
            result.append(checked)
        if expr.function in ("ceil_div", "align") and result[1].value == 0 and result[1].value is not None:
            self._fault("K209", f"{expr.function} by zero", expr.args[1].span, BAD)
            return [_BAD, _BAD]
        return result

    def _index(self, expr: Index) -> Checked:
        base, index = self.infer(expr.base), self.infer(expr.index)
        self.expect(expr.index, index, INT, "an index")
        if base.type.kind == "bad":
            return _BAD
        if base.type.kind != "array" or base.type.element is None:
            self._found.add("K208", f"{article(base.type)} cannot be indexed", expr.base.span)
            return _BAD
        axis = base.type.axis
        if not (isinstance(expr.index, Name) and expr.index.name == axis) and index.type != BAD:
            message = f"this array has one value per {axis}; index it as [{axis}]"
            self._found.add("K208", message, expr.index.span)
            return _BAD
        return Checked(base.type.element)

    def _fold(self, expr: Expr, result: Type, operands: Sequence[Checked]) -> Checked:
        """The value of `expr` where every operand has one; a fault of arithmetic is reported."""
        values = [operand.value for operand in operands if operand.value is not None]
        if len(values) < len(operands) or any(operand.type == BAD for operand in operands):
            return Checked(result)
        try:
            value = fold(expr, values)
        except EvaluationError as error:
            first = error.diagnostics[0]
            return self._fault(first.code, first.message, expr.span, result)
        return Checked(result, value)

    def _fault(self, code: str, message: str, span: Span, result: Type) -> Checked:
        if not self._dead:
            self._found.add(code, message, span)
        return Checked(BAD if not self._dead else result)

    @contextmanager
    def _unreachable(self, dead: bool) -> Iterator[None]:
        """Faults of arithmetic do not count in a branch that is never taken."""
        self._dead += dead
        yield
        self._dead -= dead


def _kind(wanted: Type) -> str:
    return "choice" if wanted.kind in ("enum", "text") else wanted.kind
