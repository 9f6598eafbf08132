"""The shipped catalog, and operators and builds written out in a test."""

import textwrap

import pytest

from kgen.paths import specs_dir
from kgen.spec.catalog import Catalog
from kgen.spec.load import load_build, load_catalog, load_op


@pytest.fixture(scope="session")
def catalog():
    return load_catalog()


@pytest.fixture
def shipped(catalog):
    """A shipped build by name."""
    return lambda name: load_build(specs_dir() / "builds" / f"{name}.yaml", catalog)


@pytest.fixture
def with_op(catalog, tmp_path):
    """A catalog that has one more operator, from the text of its spec."""

    def make(text):
        path = tmp_path / "op.yaml"
        path.write_text(textwrap.dedent(text))
        op = load_op(path, catalog.layouts, list(catalog.targets))
        return Catalog({**catalog.ops, op.name: op}, catalog.layouts, catalog.targets)

    return make


@pytest.fixture
def build_text(catalog, tmp_path):
    """A build from the text of its file."""

    def make(text, known=catalog):
        path = tmp_path / "b.yaml"
        path.write_text(textwrap.dedent(text))
        return load_build(path, known)

    return make
