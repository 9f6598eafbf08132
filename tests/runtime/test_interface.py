"""The interface as the package's docstring has it."""

import doctest

import kgen.runtime


def test_the_example_is_true():
    found = doctest.testmod(kgen.runtime)
    assert found.attempted >= 8 and found.failed == 0


def test_every_public_name_is_there():
    assert all(hasattr(kgen.runtime, name) for name in kgen.runtime.__all__)
    assert sorted(kgen.runtime.__all__) == sorted(set(kgen.runtime.__all__))
