import pytest

from tests.engine.samples import tiny_llama


@pytest.fixture(scope="session")
def llama():
    """The tiny network itself, of transformers."""
    return tiny_llama()


@pytest.fixture(scope="session")
def model(llama):
    """The tiny network as an engine's model."""
    from kgen.integrations.decoder import TransformersModel

    return TransformersModel(llama)
