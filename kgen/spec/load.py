"""From files to typed specs. Every fault of every file read is raised together."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from kgen.diagnostics import Collector, Diagnostic, KgenError, Source, choice_hint
from kgen.layout import Layout
from kgen.paths import specs_dir as shipped_specs
from kgen.paths import templates_dir
from kgen.spec.build import read_build
from kgen.spec.catalog import Catalog as Catalog
from kgen.spec.layouts import read_layouts
from kgen.spec.model import BuildSpec, OpSpec, TargetSpec
from kgen.spec.op import read_op
from kgen.spec.target import read_target
from kgen.syntax.yaml import load

MAX_BYTES = 1 << 20


def load_catalog(specs_dir: Path | None = None) -> Catalog:
    """Every layout, target and operator under `specs_dir` (the shipped one when None).

    Raises `KgenError` with the faults of all files, in the order of their names.
    """
    root = specs_dir if specs_dir is not None else shipped_specs()
    found = Collector()
    layouts = _load_layouts(root, found)
    targets: dict[str, TargetSpec] = {}
    for path in _files(root / "targets"):
        source = _read(path, _name(root, path), found)
        target = read_target(load(source, found), found) if source is not None else None
        if target is not None and target.name:
            _add(targets, target.name, target, "target", found)
    ops: dict[str, OpSpec] = {}
    for path in _files(root / "ops"):
        source = _read(path, _name(root, path), found)
        if source is not None:
            op = _op(source, layouts, list(targets), _layout_bytes(root), found)
            _add(ops, op.name, op, "operator", found)
    found.check()
    return Catalog(ops, layouts, targets)


def load_op(path: str | Path, layouts: Mapping[str, Layout], targets: Sequence[str] | None = None) -> OpSpec:
    """The operator of one file. Its hash counts the layouts.yaml beside its folder, if any."""
    found = Collector()
    source = _read(Path(path), str(path), found)
    found.check()
    assert source is not None  # noqa: S101
    op = _op(source, layouts, targets, _layout_bytes(Path(path).parent.parent), found)
    found.check()
    return op


def load_build(path: str | Path, catalog: Catalog) -> BuildSpec:
    """The build of one file, checked against the operators, layouts and targets of `catalog`."""
    found = Collector()
    source = _read(Path(path), str(path), found)
    build = read_build(load(source, found), catalog, found) if source is not None else None
    found.check()
    assert build is not None  # noqa: S101
    return build


def _op(
    source: Source,
    layouts: Mapping[str, Layout],
    targets: Sequence[str] | None,
    extra: bytes,
    found: Collector,
) -> OpSpec:
    mine = Collector()
    digest = spec_hash(source.text.encode(), extra)
    op = read_op(load(source, mine), digest, layouts, targets, None, mine)
    found.extend(mine.diagnostics)
    return op


def spec_hash(spec: bytes, layouts: bytes) -> str:
    """What identifies an operator's meaning: its file and the layouts, nothing of where or when."""
    digest = hashlib.sha256(f"{len(spec)}:".encode())
    digest.update(spec)
    digest.update(layouts)
    return digest.hexdigest()


def _load_layouts(root: Path, found: Collector) -> Mapping[str, Layout]:
    path = root / "layouts.yaml"
    source = _read(path, _name(root, path), found)
    return read_layouts(load(source, found), found) if source is not None else {}


def _layout_bytes(root: Path) -> bytes:
    path = root / "layouts.yaml"
    return path.read_bytes() if path.is_file() else b""


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml"))


def _name(root: Path, path: Path) -> str:
    """How messages name a file: from the specs folder on, the same on every machine."""
    return f"{root.name or 'specs'}/{path.relative_to(root).as_posix()}"


def _add(known: dict[str, object], name: str, item: object, what: str, found: Collector) -> None:  # type: ignore[type-arg]
    if name in known:
        first = known[name].span  # type: ignore[attr-defined]
        found.add(
            "K215", f"the {what} '{name}' is defined twice", item.span, None, (f"first given at {first}",)
        )  # type: ignore[attr-defined]
    else:
        known[name] = item


def _read(path: Path, name: str, found: Collector) -> Source | None:
    """The text of a file, or None with the reason reported (K105)."""
    try:
        if path.stat().st_size > MAX_BYTES:
            found.add("K104", f"{name} is larger than {MAX_BYTES} bytes")
            return None
        return Source(name, path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        beside = [each.name for each in _files(path.parent)] if path.parent.is_dir() else []
        hint = choice_hint(path.name, beside) if beside else None
        found.add("K105", f"there is no file {name}", None, hint)
    except UnicodeDecodeError as error:
        found.add("K105", f"{name} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}")
    except OSError as error:
        found.add("K105", f"cannot read {name}: {error.strerror or error}")
    return None
