"""The small specs folder that tests of the language share, and how a sample is loaded."""

from functools import cache
from pathlib import Path

from kgen.spec.load import (
    Catalog,
    load_bench,
    load_build,
    load_catalog,
    load_layouts,
    load_op,
    load_target,
    load_tuning,
)

HERE = Path(__file__).parent
CATALOG = HERE / "catalog"
MALFORMED = HERE / "malformed"


@cache
def catalog() -> Catalog:
    """Two targets, three layouts and one operator."""
    return load_catalog(CATALOG)


def load_sample(path: Path) -> object:
    """Load a file as what its name says it is; operators by default."""
    kind = path.stem.split("_")[0]
    if kind == "target":
        return load_target(path)
    if kind == "layouts":
        return load_layouts(path)
    if kind == "build":
        return load_build(path, catalog())
    if kind == "tuned":
        return load_tuning(path, catalog().ops)
    if kind == "bench":
        return load_bench(path, catalog())
    return load_op(path, catalog().layouts, list(catalog().targets))
