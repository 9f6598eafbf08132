"""Which room may import which: the walls of the house, checked on every import statement.

A lazy import inside a function, or one under TYPE_CHECKING, counts like any other. The compile
half never sees torch or the run half; the run half never sees the compile half; what both need
stands below both.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "kgen"

BASE = (
    "diagnostics",
    "env",
    "paths",
    "layout",
    "manifest",
    "manifest_read",
    "arithmetic",
    "semantics",
    "definitions",
    "tuning",
    "fp8",
)
# Each of these may import those before it.
COMPILE = ("syntax", "algebra", "spec", "targets", "masks", "variants", "render", "build", "inspect")
RUN = ("metadata", "dispatch", "runtime")
ACROSS = (
    "pictures",
    "api",
    "ops",
    "quantise",
    "reference",
    "testing",
    "bench",
    "tune",
    "replay",
    "paper",
    "engine",
    "integrations",
)

ALLOWED: Mapping[str, tuple[str, ...]] = {
    "__init__": ("ops",),
    "diagnostics": (),
    "env": ("diagnostics",),
    "paths": ("env", "diagnostics"),
    "layout": ("diagnostics",),
    "manifest": ("diagnostics",),
    "tuning": ("manifest", "diagnostics"),
    "pictures": ("diagnostics",),
    "manifest_read": ("manifest", "layout", "diagnostics"),
    "arithmetic": ("diagnostics",),
    "semantics": ("arithmetic", "manifest", "diagnostics"),
    "definitions": ("diagnostics",),
    **{room: (*BASE, *COMPILE[:place]) for place, room in enumerate(COMPILE)},
    "metadata": ("diagnostics", "layout"),
    "dispatch": (*BASE, "metadata"),
    "runtime": ("diagnostics", "env", "layout", "metadata", "fp8"),
    "api": (*BASE, *COMPILE, "dispatch"),
    "ops": ("api", "dispatch"),
    "fp8": (),
    "quantise": ("fp8", "layout"),
    "reference": ("diagnostics", "layout", "quantise"),
    "testing": (*BASE, *COMPILE, *RUN, "api", "ops", "quantise", "reference"),
    "bench": (*BASE, *COMPILE, *RUN, "pictures", "api", "ops", "quantise", "reference", "testing"),
    "tune": (*BASE, *COMPILE, *RUN, "api", "ops", "quantise", "reference", "testing", "bench"),
    "replay": ("diagnostics", "runtime"),
    "paper": ("diagnostics", "runtime", "replay"),
    "engine": ("diagnostics", "layout", "metadata", "runtime", "ops", "fp8"),
    "integrations": ("diagnostics", "env", "layout", *RUN, "ops", "engine"),
    "demo": (*BASE, *COMPILE, *RUN, *ACROSS),
    "commands": (*BASE, *COMPILE, *RUN, *ACROSS, "demo"),
    "cli": ("diagnostics", "env", "commands"),
    "__main__": ("cli",),
}

# Packages from outside, and the rooms that may use them. Whatever is not listed here is free.
OUTSIDE: Mapping[str, tuple[str, ...]] = {
    "torch": (
        *RUN,
        "quantise",
        "reference",
        "testing",
        "bench",
        "tune",
        "paper",
        "engine",
        "integrations",
        "demo",
    ),
    "numpy": (
        *RUN,
        "quantise",
        "reference",
        "testing",
        "bench",
        "tune",
        "replay",
        "paper",
        "engine",
        "integrations",
        "demo",
    ),
    "transformers": ("integrations", "demo"),
    "lark": ("syntax",),
    "yaml": ("syntax",),
    "jinja2": ("render",),
    "matplotlib": ("pictures",),
    "pybind11": ("dispatch", "build"),
}


def rooms_of(tree: ast.AST, module: tuple[str, ...], is_package: bool) -> Iterator[tuple[int, str]]:
    """Every (line, dotted name) a module imports, relative imports resolved."""
    here = ("kgen", *module) if is_package else ("kgen", *module[:-1])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level + 1]) if node.level else ""
            source = ".".join(part for part in (base, node.module) if part)
            for alias in node.names if source == "kgen" else ():
                yield node.lineno, f"kgen.{alias.name}"
            if source != "kgen":
                yield node.lineno, source


def violations(package: Path) -> list[str]:
    """One line for each forbidden arrow under `package`."""
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = parts[:-1] if is_package else parts
        room = module[0] if module else "__init__"
        for line, name in rooms_of(ast.parse(path.read_text()), module, is_package):
            if reason := forbidden(room, name):
                found.append(f"{path.relative_to(package.parent)}:{line}: {reason}")
    return found


def forbidden(room: str, name: str) -> str | None:
    """Why `room` may not import `name`, or None."""
    top, *rest = name.split(".")
    if top != "kgen":
        return f"{room} imports {top}" if room not in OUTSIDE.get(top, (room,)) else None
    target = rest[0] if rest else "__init__"
    if target in (room, "__version__") or (target == "__init__" and room != "__init__"):
        return None
    return f"{room} imports {target}" if target not in ALLOWED.get(room, ()) else None


def test_no_forbidden_arrow():
    assert violations(PACKAGE) == []


def test_every_room_has_rules():
    files = {p.stem for p in PACKAGE.glob("*.py")}
    folders = {p.parent.name for p in PACKAGE.glob("*/__init__.py")}
    assert (files | folders) - set(ALLOWED) == set()


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("variants/plan.py", "import torch", "variants imports torch"),
        ("render/emit.py", "def f():\n    from kgen.dispatch import select", "render imports dispatch"),
        ("dispatch/launch.py", "from kgen.build.build import build", "dispatch imports build"),
        ("dispatch/launch.py", "from kgen import spec", "dispatch imports spec"),
        ("runtime/pool.py", "from ..dispatch import launch", "runtime imports dispatch"),
        ("syntax/parser.py", "from ..spec.model import Param", "syntax imports spec"),
        ("diagnostics.py", "from .env import arch", "diagnostics imports env"),
        ("dispatch/ops.py", "import kgen.integrations.transformers", "dispatch imports integrations"),
        (
            "spec/check.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import kgen.variants.model",
            "spec imports variants",
        ),
    ],
)
def test_a_planted_violation_is_found(tmp_path, path, text, reason):
    planted = tmp_path / "kgen" / path
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(text)
    found = violations(tmp_path / "kgen")
    assert [line.partition(": ")[2] for line in found] == [reason]


def test_the_rules_themselves_have_no_cycle():
    seen: set[str] = set()

    def visit(room: str, trail: tuple[str, ...]) -> None:
        assert room not in trail, f"cycle: {' -> '.join((*trail, room))}"
        if room not in seen:
            for target in ALLOWED.get(room, ()):
                visit(target, (*trail, room))
            seen.add(room)

    for room in ALLOWED:
        visit(room, ())


def modules_after(code: str) -> set[str]:
    """The modules a fresh interpreter has loaded after running `code`."""
    script = textwrap.dedent(code) + "\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "code",
    [
        "import kgen",
        "from kgen.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "from kgen.cli import main\nassert main(['check']) == 0",
        "from kgen.cli import main\nassert main(['list', 'golden', '--json']) == 0",
        "from kgen.cli import main\nassert main(['render', 'golden', '--only', 'merge*']) == 0",
    ],
    ids=["import", "help", "check", "list", "render"],
)
def test_the_compile_half_runs_without_torch(code):
    loaded = modules_after(code)
    assert "kgen" in loaded
    assert loaded.isdisjoint({"torch", "numpy", "transformers", "kgen.ops"})


def test_import_kgen_is_light():
    assert modules_after("import kgen").isdisjoint({"rich", "lark", "yaml", "jinja2", "argparse"})
