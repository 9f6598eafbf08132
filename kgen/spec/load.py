"""From files to typed specs. Every fault of every file read is raised together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from kgen import paths
from kgen.diagnostics import Collector, KgenError, Source, choice_hint
from kgen.layout import Layout
from kgen.spec.benches import BenchSpec, read_bench
from kgen.spec.build import read_build
from kgen.spec.catalog import Catalog as Catalog
from kgen.spec.layouts import read_layouts
from kgen.spec.model import BuildSpec, OpSpec, TargetSpec, VariantSpec
from kgen.spec.op import read_op
from kgen.spec.target import name_of, parent_of, read_target, resolve_like
from kgen.spec.tuning import read_tuning
from kgen.spec.variants import read_masks
from kgen.syntax.yaml import MapNode, Node, load
from kgen.tuning import TuningTable

T = TypeVar("T")

MAX_BYTES = 1 << 20
MASKS = "masks.yaml"


def load_catalog(specs_dir: Path | None = None) -> Catalog:
    """Every layout, target and operator under `specs_dir` (the shipped one when None).

    Raises `KgenError` with the faults of all files, in the order of their names.
    """
    root = specs_dir if specs_dir is not None else paths.specs_dir()
    found = Collector()
    layouts = _layouts(root / "layouts.yaml", _name(root, "layouts.yaml"), found)
    masks = _masks(root, found)
    targets = _targets(_files(root / "targets"), root, found)
    ops: dict[str, OpSpec] = {}
    for path in _files(root / "ops"):
        source = _read(path, _name(root, f"ops/{path.name}"), found)
        if source is not None:
            _add(ops, _op(source, root, layouts, list(targets) or None, found, masks), found)
    found.check()
    return Catalog(ops, layouts, targets)


def load_op(path: str | Path, layouts: Mapping[str, Layout], targets: Sequence[str] | None = None) -> OpSpec:
    """The operator of one file, with the masks.yaml beside its folder, if any."""
    found = Collector()
    source = _read(Path(path), str(path), found)
    if source is None:
        raise KgenError(found.diagnostics)
    root = Path(path).parent.parent
    op = _op(source, root, layouts, targets, found, _masks(root, found))
    found.check()
    return op


def load_target(path: str | Path) -> TargetSpec:
    """The target of one file; what it is `like` is looked up beside it and among the shipped ones."""
    found = Collector()
    source = _read(Path(path), str(path), found)
    node = load(source, found) if source is not None else None
    if node is None or found:
        raise KgenError(found.diagnostics)
    nodes = {**_relatives(node, Path(path).parent), name_of(node): node}
    complete = resolve_like(nodes, found, only=name_of(node))
    target = read_target(complete[name_of(node)], found)
    found.check()
    return target


def load_layouts(path: str | Path) -> Mapping[str, Layout]:
    """The layouts of one file, by name."""
    found = Collector()
    layouts = _layouts(Path(path), str(path), found)
    found.check()
    return layouts


def load_masks(path: str | Path) -> Mapping[str, VariantSpec]:
    """The masks and scores of one file, by name."""
    found = Collector()
    source = _read(Path(path), str(path), found)
    masks = read_masks(load(source, found), found) if source is not None else {}
    found.check()
    return masks


def load_build(path: str | Path, catalog: Catalog) -> BuildSpec:
    """The build of one file, checked against the operators, layouts and targets of `catalog`."""
    return _document(path, lambda node, found: read_build(node, catalog, found))


def load_bench(path: str | Path, catalog: Catalog) -> BenchSpec:
    """The grid of one file, checked against the layouts of `catalog`."""
    return _document(path, lambda node, found: read_bench(node, catalog, found))


def load_tuning(path: str | Path, ops: Mapping[str, OpSpec]) -> TuningTable:
    """The tuning table of one file, checked against the operators."""
    return _document(path, lambda node, found: read_tuning(node, ops, Path(path).name, found))


def root_keys(path: str | Path) -> tuple[str, ...]:
    """The keys at the top of a file, by which one can tell what kind of spec it is."""
    found = Collector()
    source = _read(Path(path), str(path), found)
    root = load(source, found) if source is not None else None
    found.check()
    return tuple(entry.key.text for entry in root.entries) if isinstance(root, MapNode) else ()


def spec_hash(*parts: bytes) -> str:
    """What identifies an operator's meaning: its file, the layouts and the masks, nothing of where or
    when."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode())
        digest.update(part)
    return digest.hexdigest()


def _document(path: str | Path, read: Callable[[Node, Collector], T]) -> T:
    """What `read` makes of a file. Raises KgenError with all its faults."""
    found = Collector()
    source = _read(Path(path), str(path), found)
    document = read(load(source, found), found) if source is not None else None
    if document is None or found:
        raise KgenError(found.diagnostics)
    return document


def _op(
    source: Source,
    root: Path,
    layouts: Mapping[str, Layout],
    targets: Sequence[str] | None,
    found: Collector,
    masks: Mapping[str, VariantSpec],
) -> OpSpec:
    shared = [root / "layouts.yaml", root / MASKS]
    digest = spec_hash(source.text.encode(), *(p.read_bytes() if p.is_file() else b"" for p in shared))
    return read_op(load(source, found), digest, layouts, targets, paths.templates_dir(), found, masks)


def _masks(root: Path, found: Collector) -> Mapping[str, VariantSpec]:
    """The masks all operators of a folder share; none where there is no file of them."""
    path = root / MASKS
    source = _read(path, _name(root, MASKS), found) if path.is_file() else None
    return read_masks(load(source, found), found) if source is not None else {}


def _targets(files: Sequence[Path], root: Path, found: Collector) -> dict[str, TargetSpec]:
    """Every target; a fault that several inherit is told once."""
    nodes = _target_nodes({path: _name(root, f"targets/{path.name}") for path in files}, found)
    known: set[tuple[object, ...]] = set()
    targets = {}
    for name, node in resolve_like(nodes, found).items():
        mine = Collector()
        targets[name] = read_target(node, mine)
        for fault in mine.diagnostics:
            if (fault.code, fault.span, fault.message) not in known:
                known.add((fault.code, fault.span, fault.message))
                found.extend([fault])
    return targets


def _relatives(node: Node, folder: Path) -> dict[str, Node]:
    """The targets that a file may be like; their own faults are told where they are read themselves."""
    if parent_of(node) is None:
        return {}
    shipped = paths.specs_dir() / "targets"
    both = {
        **_target_nodes({path: _name(shipped.parent, f"targets/{path.name}") for path in _files(shipped)}),
        **_target_nodes({path: str(path) for path in _files(folder)}),
    }
    return {name: other for name, other in both.items() if name_of(other)}


def _target_nodes(files: Mapping[Path, str], found: Collector | None = None) -> dict[str, Node]:
    """The trees of target files, each with how messages name it, by the name it gives itself."""
    nodes: dict[str, Node] = {}
    found = Collector() if found is None else found
    for path, shown in files.items():
        source = _read(path, shown, found)
        node = load(source, found) if source is not None else None
        if node is None:
            continue
        name = name_of(node) or path.name
        if name in nodes:
            note = f"first given at {nodes[name].span}"
            found.add("K215", f"the target '{name}' is defined twice", node.span, None, (note,))
        nodes.setdefault(name, node)
    return nodes


def _layouts(path: Path, name: str, found: Collector) -> Mapping[str, Layout]:
    source = _read(path, name, found)
    return read_layouts(load(source, found), found) if source is not None else {}


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml"))


def _name(root: Path, path: str) -> str:
    """How messages name a file: from the specs folder on, the same on every machine."""
    return f"{root.name or 'specs'}/{path}"


def _add(known: dict[str, OpSpec], item: OpSpec | None, found: Collector) -> None:
    if item is None or not item.name:
        return
    if item.name in known:
        note = f"first given at {known[item.name].span}"
        found.add("K215", f"the operator '{item.name}' is defined twice", item.span, None, (note,))
    else:
        known[item.name] = item


def _read(path: Path, name: str, found: Collector) -> Source | None:
    """The text of a file, or None with the reason reported (K104, K105)."""
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
        byte = error.object[error.start]
        found.add("K105", f"{name} is not UTF-8 text: byte {error.start} is {byte:#04x}")
    except OSError as error:
        found.add("K105", f"cannot read {name}: {error.strerror or error}")
    return None
