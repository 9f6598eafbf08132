"""Manifest documents read back from JSON, checked field by field against their dataclasses.

A document may have been cut short, edited, or written by another version of kgen: whatever is
wrong with it ends as one `KgenError` (K420 to K422) that names the file and every bad field.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from kgen.diagnostics import Collector, Diagnostic, KgenError, Source, Span, choice_hint
from kgen.manifest import ABI_VERSION, SCHEMA_VERSION, Code, Entry, Library, Policy, Scalar

T = TypeVar("T", Entry, Library, Policy)

MAX_CODE_DEPTH = 200
_MISSING = object()


def read_entry(path: Path) -> Entry:
    """The `Entry` in a file. Raises KgenError when it cannot be read or does not fit."""
    return from_json(Entry, _text(path), str(path))


def read_library(path: Path) -> Library:
    """The `Library` in a file. Raises KgenError when it cannot be read or does not fit."""
    return from_json(Library, _text(path), str(path))


def read_policy(path: Path) -> Policy:
    """The `Policy` in a file. Raises KgenError when it cannot be read or does not fit."""
    return from_json(Policy, _text(path), str(path))


def from_json(kind: type[T], text: str, name: str) -> T:
    """The document of this kind that `manifest.to_json` wrote; `name` is the file, for messages."""
    data = _parse(text, name)
    _check_version(data, name)
    reader = _Reader(name)
    document = reader.read(kind, data, "")
    reader.errors.check()
    return typing.cast("T", document)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise KgenError(Diagnostic("K420", f"cannot read {path}: {reason}")) from error


def _parse(text: str, name: str) -> Any:
    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not a JSON number")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        span = Span(Source(name, text), error.lineno, error.colno, error.lineno, error.colno + 1)
        raise KgenError(Diagnostic("K421", f"not JSON: {error.msg}", span)) from error
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise KgenError(Diagnostic("K421", f"{name}: not JSON: {reason}")) from error


def _check_version(data: Any, name: str) -> None:
    """Refuse another version's document before its fields, which may differ, are looked at."""
    if not isinstance(data, dict):
        return
    for what, key, ours in (
        ("schema version", "version", SCHEMA_VERSION),
        ("argument block version", "abi", ABI_VERSION),
    ):
        found = data.get(key, ours)
        if type(found) is int and found != ours:
            message = f"{name}: made for {what} {found}; this kgen knows version {ours}"
            raise KgenError(Diagnostic("K422", message, hint="build the library again with this kgen"))
    for part in ("entries", "policies"):
        inner = data.get(part)
        for item in inner if isinstance(inner, list) else ():
            _check_version(item, name)


@functools.cache
def _fields(kind: type) -> Mapping[str, tuple[Any, bool]]:
    """Field name -> (type, whether it must be there)."""
    hints = typing.get_type_hints(kind)
    none = dataclasses.MISSING
    return {
        f.name: (hints[f.name], f.default is none and f.default_factory is none)
        for f in dataclasses.fields(kind)
    }


class _Reader:
    """Walks a document along its type; `at` is the path of a value, as `entries[3].params`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.errors = Collector()

    def fail(self, at: str, message: str, hint: str | None = None) -> Any:
        self.errors.add("K421", f"{self.name}: {at or 'the document'} {message}", hint=hint)
        return _MISSING

    def read(self, kind: Any, value: Any, at: str) -> Any:
        """`value` as `kind`, or a complaint (the result is then of no use)."""
        if kind is Any:
            return value
        if kind == Code:
            return value if _is_code(value) else self.fail(at, "is not a coded expression")
        if kind == Scalar:
            return self._scalar(value, at)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self._dataclass(kind, value, at)
        origin = typing.get_origin(kind)
        if origin in (types.UnionType, typing.Union):
            return self._optional(kind, value, at)
        if origin is tuple:
            return self._tuple(typing.get_args(kind), value, at)
        if origin is not None:
            return self._mapping(typing.get_args(kind), value, at)
        return self._plain(kind, value, at)

    def _dataclass(self, kind: type, value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            return self.fail(at, f"must be an object ({kind.__name__}), found {_say(value)}")
        fields = _fields(kind)
        for key in value.keys() - fields.keys():
            self.fail(_join(at, key), f"is no field of {kind.__name__}", choice_hint(key, sorted(fields)))
        found: dict[str, Any] = {}
        for key, (field_type, required) in fields.items():
            if key in value:
                found[key] = self.read(field_type, value[key], _join(at, key))
            elif required:
                self.fail(_join(at, key), "is missing")
        complete = all(key in found for key, (_, required) in fields.items() if required)
        return kind(**found) if complete else _MISSING

    def _optional(self, kind: Any, value: Any, at: str) -> Any:
        if value is None:
            return None
        (inner,) = (arg for arg in typing.get_args(kind) if arg is not type(None))
        return self.read(inner, value, at)

    def _tuple(self, args: tuple[Any, ...], value: Any, at: str) -> Any:
        if not isinstance(value, list):
            return self.fail(at, f"must be a list, found {_say(value)}")
        if args[-1] is Ellipsis:
            return tuple(self.read(args[0], item, f"{at}[{i}]") for i, item in enumerate(value))
        if len(value) != len(args):
            return self.fail(at, f"must hold {len(args)} values, found {len(value)}")
        pairs = enumerate(zip(args, value, strict=True))
        return tuple(self.read(arg, item, f"{at}[{i}]") for i, (arg, item) in pairs)

    def _mapping(self, args: tuple[Any, ...], value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            return self.fail(at, f"must be an object, found {_say(value)}")
        return {key: self.read(args[1], item, _join(at, key)) for key, item in value.items()}

    def _scalar(self, value: Any, at: str) -> Any:
        if isinstance(value, bool | int | float | str):
            return value
        return self.fail(at, f"must be a number, a string or a truth value, found {_say(value)}")

    def _plain(self, kind: type, value: Any, at: str) -> Any:
        if kind is float and type(value) in (int, float):
            return float(value)
        if type(value) is kind:
            return value
        names = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}
        return self.fail(at, f"must be {names[kind]}, found {_say(value)}")


def _is_code(value: Any, depth: int = 0) -> bool:
    """A coded expression: a list that starts with its operator and holds scalars, such lists, and, for the
    operands of a chain and the choices of `in`, lists of them."""
    if not isinstance(value, list) or not value or not isinstance(value[0], str) or depth > MAX_CODE_DEPTH:
        return False
    return all(_is_part(item, depth + 1) for item in value[1:])


def _is_part(item: Any, depth: int) -> bool:
    if not isinstance(item, list):
        return isinstance(item, bool | int | float | str)
    return _is_code(item, depth) or (bool(item) and all(_is_code(each, depth) for each in item))


def _say(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key
