"""The `tests` sections of the operator specs, on a sample of the variants, against the oracle."""

import pytest

from kgen.testing import runner
from tests.specs import spec_samples


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    small = spec_samples.cases(spec_samples.sample(large=False))
    found = [pytest.param(case, id=f"{case.variant.name}-{case.name}") for case in small]
    if "not slow" not in metafunc.config.option.markexpr:
        seen = {param.id for param in found}
        large = spec_samples.cases(spec_samples.sample(large=True))
        more = ((f"{case.variant.name}-{case.name}", case) for case in large)
        found += [
            pytest.param(case, id=name, marks=pytest.mark.slow) for name, case in more if name not in seen
        ]
    metafunc.parametrize("case", found)


def test_spec(case):
    outcome = runner.check(case)
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert not outcome.problems, "\n".join(outcome.problems)
