"""Binding: what the arguments of a call say, checked against the operator's spec.

Axis sizes define facts and parameters, dtypes define parameters, and what is said twice must
agree. All faults of a call are told at once, in the words of the spec. Nothing here knows
an operator by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kgen.diagnostics import Collector, choice_hint
from kgen.dispatch import codes
from kgen.dispatch.flavours import disagreement, hint_for_bytes
from kgen.dispatch.model import Bound, Call, Names, View
from kgen.dispatch.views import overlaps, spread
from kgen.layout import CACHE_SIZES, TensorOrder
from kgen.manifest import ArgumentRule, AxisRule, Code, Policy, Scalar
from kgen.semantics import DTYPES, evaluate

_ORDER = {"read": 0, "update": 1, "write": 2}


def bind(policy: Policy, call: Call) -> Bound:
    """The facts a call fixes. Raises KgenError (K51x) with everything that does not fit."""
    binder = _Binder(policy, call)
    binder.keywords()
    binder.scalars()
    for rule in sorted(policy.arguments, key=lambda rule: _ORDER[rule.access]):
        if rule.kind in ("tensor", "cache") and not rule.workspace:
            binder.argument(rule)
    binder.derived()
    binder.presence()
    binder.alike()
    binder.finish()
    return binder.bound()


def with_scalars(policy: Policy, bound: Bound, call: Call) -> Bound:
    """A call like a bound one in all but its scalars. Guards on those are left to selection."""
    ints = {rule.name for rule in policy.arguments if rule.kind == "int"}
    given = {name: value for name, value in call.scalars.items() if name in ints and value is not None}
    fixed = {name: value for name, value in bound.names.items() if name not in ints}
    return replace(bound, names={**fixed, **given}, scalars=call.scalars)


def check_pending(policy: Policy, bound: Bound, facts: Names) -> None:
    """Check the axes that had to wait for derived facts. Raises KgenError (K512)."""
    found = Collector()
    for place, size, extent in bound.pending:
        expected = evaluate(size, facts)
        if expected != extent:
            found.add("K512", f"{policy.op}: {place} is {extent}; it must be {expected}")
    found.check()


class _Binder:
    def __init__(self, policy: Policy, call: Call) -> None:
        self.policy = policy
        self.call = call
        self.names: dict[str, Scalar] = {}
        self.origin: dict[str, str] = {}
        self.requested: dict[str, Scalar] = {}
        self.strides: dict[str, Mapping[str, int]] = {}
        self.absent: set[str] = set()
        self.devices: dict[str, str] = {}
        self.fp8: dict[str, str] = {}
        self.later: list[tuple[str, Code, int]] = []
        self.found = Collector()
        self.free = codes.free_params(policy)

    def fail(self, code: str, message: str, hint: str | None = None) -> None:
        self.found.add(code, f"{self.policy.op}: {message}", hint=hint)

    def keywords(self) -> None:
        """Parameters asked for by name: free ones are requests, the others are fixed."""
        for name, value in self.call.keywords.items():
            if value is None:
                continue
            rule = codes.param(self.policy, name)
            if rule is None:
                choices = [p.name for p in self.policy.params]
                self.fail("K516", f"no parameter is named '{name}'", choice_hint(name, choices))
            elif self._legal(name, value, f"{name}="):
                (self.requested if name in self.free else self.names)[name] = value
                self.origin[name] = f"keyword {name}"

    def scalars(self) -> None:
        for rule in self.policy.arguments:
            if rule.kind not in ("int", "float"):
                continue
            value = self.call.scalars.get(rule.name)
            if value is not None and rule.kind == "int":
                self.names[rule.name] = value

    def argument(self, rule: ArgumentRule) -> None:
        """Bind one tensor; one that is absent must be optional or be an output to allocate."""
        view = self.call.tensors.get(rule.name)
        if view is None:
            self.absent.add(rule.name)
            return
        self._dtype(rule, view)
        self.devices[rule.name] = view.device
        if view.fp8:
            self.fp8[rule.name] = view.fp8
        if rule.kind == "cache":
            self._cache(rule, view)
        else:
            self._tensor(rule, view)

    def derived(self) -> None:
        """Derive what parameters are enough for, and check the axes that had to wait for it."""
        codes.derive(self.names, self.policy)
        waiting, self.later = self.later, []
        for place, size, extent in waiting:
            if codes.known(size, self.names):
                self._expect(place, size, extent)
            else:
                self.later.append((place, size, extent))

    def alike(self) -> None:
        """What all tensors of a call have in common."""
        if len(set(self.devices.values())) > 1:
            where = ", ".join(f"{name} on {device}" for name, device in self.devices.items())
            self.fail("K514", f"the arguments are on different devices: {where}")
        if disagrees := disagreement(self.fp8):
            self.fail("K511", disagrees)

    def presence(self) -> None:
        """Arguments that are there where the spec says so, and only there."""
        for rule in self.policy.arguments:
            if rule.workspace or rule.when is None or not codes.known(rule.when, self.names):
                continue
            wanted, absent = evaluate(rule.when, self.names), rule.name in self.absent
            if wanted and absent:
                self.fail("K510", f"{rule.name} must be given: {rule.because}")
            elif not wanted and not absent:
                self.fail("K510", f"{rule.name} must not be given: {rule.because}")

    def finish(self) -> None:
        """Raise what was found; where nothing was, the guards have their say first."""
        if not self.found:
            codes.check_guards(self.policy, self.names, set())
        self.found.check()

    def bound(self) -> Bound:
        device = next(iter(self.devices.values()), "cpu")
        return Bound(
            names=self.names,
            requested=self.requested,
            strides=self.strides,
            scalars=self.call.scalars,
            absent=frozenset(self.absent),
            device=device,
            policy=self.call.policy,
            pending=tuple(self.later),
            fp8=self.fp8,
        )

    def _dtype(self, rule: ArgumentRule, view: View) -> None:
        if rule.dtype in DTYPES:
            if view.dtype != rule.dtype:
                self.fail("K511", f"{rule.name} is {view.dtype}; it must be {rule.dtype}")
        elif view.dtype == "u8" and (hint := hint_for_bytes(codes.param(self.policy, rule.dtype))):
            self.fail("K511", f"{rule.name} is u8", hint)
        elif self._legal(rule.dtype, view.dtype, f"{rule.name} is "):
            self._define(rule.dtype, view.dtype, f"{rule.name}", "K511")

    def _tensor(self, rule: ArgumentRule, view: View) -> None:
        axes = [axis.name for axis in rule.axes]
        if rule.broadcast:
            view = spread(view, len(axes))
        if not self._rank(rule, view, axes):
            return
        for axis, extent, stride in zip(rule.axes, view.shape, view.strides, strict=True):
            if stride or not rule.broadcast:
                hint = "one element stands for all" if rule.broadcast else None
                self._size(f"{rule.name} axis {axis.name}", axis, extent, hint)
        self._memory(rule, view, axes)

    def _cache(self, rule: ArgumentRule, view: View) -> None:
        order = self._cache_order(rule)
        itemsize = DTYPES.get(view.dtype)
        if order is None or itemsize is None or not self._rank(rule, view, order.axes):
            return
        width = order.width(itemsize)
        for axis, extent in zip(order.axes, view.shape, strict=True):
            place = f"{rule.name} axis {axis}"
            if axis == "inner":
                self._expect(place, ["int", width], extent)
            elif axis == "dim" and width > 1:
                self._define("head_dim", extent * width, f"{place} x {width}")
            else:
                self._size(place, AxisRule(axis, ["name", CACHE_SIZES[axis]]), extent)
        self._memory(rule, view, order.axes)

    def _cache_order(self, rule: ArgumentRule) -> TensorOrder | None:
        name = str(self.names.get("layout", ""))
        if name not in self.policy.layouts:
            return None
        layout = codes.layout_of(self.policy, name)
        order = layout.order(rule.cache)
        if order is None:
            message = f"the {rule.cache} order of layout '{name}' is not known"
            self.fail("K516", message, layout.because or None)
        return order

    def _rank(self, rule: ArgumentRule, view: View, axes: tuple[str, ...] | list[str]) -> bool:
        if len(view.shape) == len(axes):
            return True
        expected = f"[{', '.join(axes)}]"
        self.fail("K512", f"{rule.name} has shape {list(view.shape)}; it must have the axes {expected}")
        return False

    def _memory(self, rule: ArgumentRule, view: View, axes: tuple[str, ...] | list[str]) -> None:
        """A last axis without a stride must be contiguous; what is written must not overlap itself."""
        if view.shape[-1] > 1 and view.strides[-1] != 1 and not rule.broadcast:
            message = f"{rule.name} axis {axes[-1]} has stride {view.strides[-1]}"
            self.fail("K513", f"{message}; the last axis must be contiguous")
        if rule.access != "read" and overlaps(view):
            message = f"{rule.name} is written, but its strides {list(view.strides)} make elements overlap"
            self.fail("K513", message, f"pass {rule.name}.contiguous() or a tensor of its own")
        self.strides[rule.name] = dict(zip(axes, view.strides, strict=True))

    def _size(self, place: str, axis: AxisRule, extent: int, hint: str | None = None) -> None:
        if axis.size[0] == "name" and self._defines(axis.size[1]):
            self._define(axis.size[1], extent, place, hint=hint)
        elif codes.known(axis.size, self.names):
            self._expect(place, axis.size, extent, hint)
        else:
            self.later.append((place, axis.size, extent))

    def _defines(self, name: str) -> bool:
        return all(name != other for other, _ in (*self.policy.lets, *self.policy.facts))

    def _define(
        self, name: str, value: Scalar, place: str, code: str = "K512", hint: str | None = None
    ) -> None:
        before = self.names.setdefault(name, value)
        if before != value:
            said = self.origin.get(name, "the call")
            self.fail(code, f"{place} is {value}, but {name} is {before} (from {said})", hint)
            return
        if name not in self.origin:
            self.origin[name] = place
            self._legal(name, value, f"{place} is ")

    def _expect(self, place: str, size: Code, extent: int, hint: str | None = None) -> None:
        expected = evaluate(size, self.names)
        if expected != extent:
            self.fail("K512", f"{place} is {extent}; it must be {expected}", hint)

    def _legal(self, name: str, value: Scalar, place: str) -> bool:
        """Whether a parameter may have this value; complains where it may not."""
        rule = codes.param(self.policy, name)
        if rule is None:
            return True
        if rule.type == "layout" and value not in self.policy.layouts:
            hint = choice_hint(str(value), sorted(self.policy.layouts))
            self.fail("K516", f"no layout is named '{value}'", hint)
            return False
        if rule.type == "int" and (isinstance(value, bool) or not isinstance(value, int)):
            self.fail("K516", f"{place}{value!r}, but {name} is an int")
            return False
        if rule.values and value not in rule.values:
            listed = ", ".join(map(str, rule.values))
            code = "K511" if rule.type == "dtype" else "K516"
            self.fail(code, f"{place}{value}, which is no {name}", f"{name} is one of: {listed}")
            return False
        return True
