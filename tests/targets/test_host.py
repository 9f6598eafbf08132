"""Native is the best target whose every feature the operating system reports on every core."""

from types import SimpleNamespace

import pytest

from kgen.diagnostics import KgenError
from kgen.spec.load import load_catalog
from kgen.targets import host

CPUINFO = """\
processor\t: 0
flags\t\t: fpu avx avx2 fma f16c avx512f

processor\t: 1
flags\t\t: fpu avx avx2 fma f16c
"""


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def test_features_are_those_every_core_has():
    assert host.parse_features(CPUINFO) == {"fpu", "avx", "avx2", "fma", "f16c"}


def test_no_flags_line_means_no_features():
    assert host.parse_features("processor : 0\nmodel name : something avx2\n") == frozenset()


def test_a_machine_without_cpuinfo_has_no_features(tmp_path):
    assert host._read_features(tmp_path / "absent") == frozenset()


AVX2 = frozenset({"avx2", "fma", "f16c"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("features", "target"),
    [
        (frozenset(), "cpu_generic"),
        (AVX2 - {"f16c"}, "cpu_generic"),
        (AVX2, "cpu_avx2"),
        (AVX512 - {"avx512vl"}, "cpu_avx2"),
        (AVX512, "cpu_avx512"),
        (AVX512 | {"avx512vbmi", "avx512_bf16", "amx_tile"}, "cpu_avx512bf16"),
        (AVX512 | {"avx512_bf16"}, "cpu_avx512"),
    ],
)
def test_best_target(catalog, features, target):
    assert host.best_target(catalog.targets, features) == target


def test_native_follows_the_host(catalog, monkeypatch):
    monkeypatch.delenv("KGEN_ARCH", raising=False)
    monkeypatch.setattr(host, "host_features", lambda: AVX512)
    assert host.native_target(catalog) == "cpu_avx512"


@pytest.mark.parametrize("arch", ["cpu_generic", "gfx942", "sim:gfx942"])
def test_kgen_arch_overrides_at_each_call(catalog, monkeypatch, arch):
    monkeypatch.setenv("KGEN_ARCH", arch)
    assert host.native_target(catalog) == arch


def test_kgen_arch_native_means_the_host(catalog, monkeypatch):
    monkeypatch.setenv("KGEN_ARCH", "native")
    monkeypatch.setattr(host, "host_features", lambda: AVX2)
    assert host.native_target(catalog) == "cpu_avx2"


@pytest.mark.parametrize(
    ("arch", "near"), [("cpu_avx22", "cpu_avx2"), ("gfx924", "gfx942"), ("sim:gfx943", "sim:gfx942")]
)
def test_an_unknown_kgen_arch_names_the_nearest(catalog, monkeypatch, arch, near):
    monkeypatch.setenv("KGEN_ARCH", arch)
    with pytest.raises(KgenError) as caught:
        host.native_target(catalog)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "K601"
    assert f"did you mean '{near}'?" in diagnostic.hint


def test_a_cpu_is_not_simulated(catalog, monkeypatch):
    monkeypatch.setenv("KGEN_ARCH", "sim:cpu_avx2")
    with pytest.raises(KgenError, match="KGEN_ARCH"):
        host.native_target(catalog)


def test_no_cpu_target_that_fits_is_an_error():
    wide = SimpleNamespace(name="cpu_wide", family="cpu", requires=("avx1024",), vector_bits=1024)
    with pytest.raises(KgenError, match="K604") as caught:
        host.best_target({"cpu_wide": wide}, AVX2)
    assert "cpu_wide" in str(caught.value)
