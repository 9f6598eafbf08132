import pytest

from kgen.bench.measure import alternate, ratios, spread


def test_spread_is_median_and_quartiles():
    found = spread([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (found.low, found.median, found.high) == (2.0, 3.0, 4.0)
    assert spread([7.0]).low == spread([7.0]).high == 7.0


def test_rounds_alternate_and_warmups_do_not_count():
    calls = []
    contenders = {name: lambda name=name: calls.append(name) for name in "abc"}
    times = alternate(contenders, rounds=4, warmup=1)
    assert {name: len(found) for name, found in times.items()} == {"a": 4, "b": 4, "c": 4}
    assert "".join(calls) == "cbaabccbaabccba"
    assert all(seconds >= 0 for found in times.values() for seconds in found)


def test_ratios_are_taken_round_by_round():
    assert ratios([1.0, 2.0], [2.0, 2.0]) == [2.0, 1.0]
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0], [1.0, 2.0])
