"""Every case of the operators' specs, on a sample of variants in which all pairs of values occur."""

from pathlib import Path

import pytest

from kgen import api
from kgen.testing.runner import cases, check
from kgen.testing.variants import sampled

VARIANTS = sampled(api.expand(Path(__file__).with_name("cases.yaml")).accepted)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_cases_of_the_spec(variant):
    for case in cases(variant):
        outcome = check(case)
        assert outcome.skipped == ""
        assert outcome.problems == (), case.name
