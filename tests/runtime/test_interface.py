"""The interface as the package's docstring has it."""

import dataclasses
import doctest
import re
from pathlib import Path

import kgen.runtime


def test_the_example_is_true():
    found = doctest.testmod(kgen.runtime)
    assert found.attempted >= 8 and found.failed == 0


def test_every_public_name_is_there():
    assert all(hasattr(kgen.runtime, name) for name in kgen.runtime.__all__)
    assert sorted(kgen.runtime.__all__) == sorted(set(kgen.runtime.__all__))


def test_the_manual_names_every_setting_and_every_part():
    text = (Path(__file__).parents[2] / "docs" / "runtime.md").read_text()
    table = "".join(line for line in text.splitlines() if line.startswith("| `"))
    settings = {field.name for field in dataclasses.fields(kgen.runtime.SchedulerConfig)}
    parts = {"PagePool", "KVPool", "RadixCache", "BlockManager", "Scheduler"}
    named = set(re.findall(r"`(\w+)`", table))
    assert settings | parts <= named
    assert named <= settings | parts | {"recompute", "swap", "fcfs", "priority"}
    assert all(f"`{name}`" in text for name in (*kgen.runtime.ORDERS, *kgen.runtime.POLICIES))
