"""Every accepted variant can be reached by a call: by the policy, or by asking for it."""

import pytest

from kgen.paths import specs_dir
from kgen.spec.load import load_build, load_catalog
from kgen.testing.reach import reachable_by
from kgen.variants.matrix import expand


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def accepted(catalog, name):
    build = load_build(specs_dir() / "builds" / f"{name}.yaml", catalog)
    return expand(build, catalog, "cpu_avx2").accepted


@pytest.mark.parametrize("build", ["host", "smollm2", "golden", "wide"])
def test_every_variant_is_reached(catalog, build):
    variants = accepted(catalog, build)
    ways = reachable_by(variants)
    assert set(ways) == {v.name for v in variants}
    assert all(way.startswith(("policy with ", "explicit argument ")) for way in ways.values())


def test_the_everyday_builds_are_reached_by_policy_alone(catalog):
    for build in ("host", "smollm2"):
        ways = reachable_by(accepted(catalog, build))
        assert all(way.startswith("policy with ") for way in ways.values()), ways


def test_a_partition_the_policy_never_wishes_for_needs_asking(catalog):
    variants = [v for v in accepted(catalog, "wide") if v.params.get("reuse_kv_times") == 8]
    ways = reachable_by(variants)
    assert ways["paged_attention_cpu_avx2_bf16_d128_b16_bshd_r8_p0"] == "policy with any facts"
    assert "max_seq_len = 513" in ways["paged_attention_cpu_avx2_bf16_d128_b16_bshd_r8_p512"]


def test_two_variants_a_call_cannot_tell_apart_are_not_both_reached(catalog):
    variants = accepted(catalog, "smollm2")[:1]
    twin = type(variants[0])(**{**vars(variants[0]), "name": "twin"})
    assert len(reachable_by([*variants, twin])) == 1
