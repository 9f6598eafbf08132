"""The 8-bit floats of the dialect, in both flavours: every code, and rounding at every border."""

import ctypes
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch

from kgen.fp8 import FORMATS, Format
from tests.sim import simulated

SOURCE = simulated.SOURCE.with_name("fp8.cpp")
FLAGS = {"ocp": (), "fnuz": ("-DKGEN_FP8_FNUZ",)}
CODES = np.arange(256, dtype=np.uint8)
WIDE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The functions of a flavour, compiled once."""
    folder = tmp_path_factory.mktemp("fp8")

    @cache
    def compile_once(flavour: str) -> ctypes.CDLL:
        output = folder / f"{flavour}.so"
        simulated.compile_library(output, *FLAGS[flavour], source=SOURCE)
        return ctypes.CDLL(str(output))

    return compile_once


def call(library: ctypes.CDLL, name: str, given: np.ndarray, dtype: type) -> np.ndarray:
    result = np.zeros(given.size, dtype)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (given, result)]
    library[name](*pointers, ctypes.c_int64(given.size))
    return result


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Value for value; zeros by their sign too."""
    number = ~np.isnan(want)
    return np.array_equal(got, want, equal_nan=True) and np.array_equal(
        np.signbit(got[number]), np.signbit(want[number])
    )


@pytest.mark.parametrize("one", FORMATS.values(), ids=lambda one: one.torch)
@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "columns_f16", "columns_bf16"])
def test_every_code_widens_exactly(library, one: Format, name: str) -> None:
    wide = name.removeprefix("columns_")
    held = np.int32 if wide == "f32" else np.int16
    bits = call(library(one.flavour), f"{one.dtype}_{name}", CODES, held)
    got = torch.from_numpy(bits).view(WIDE[wide]).double().numpy()
    assert same(got, np.array(one.values))


@pytest.mark.parametrize("one", FORMATS.values(), ids=lambda one: one.torch)
def test_a_code_by_itself_widens_the_same(library, one: Format) -> None:
    got = call(library(one.flavour), f"{one.dtype}_singly", CODES, np.float32)
    assert same(got.astype(np.float64), np.array(one.values))


def borders(one: Format) -> np.ndarray:
    """Every finite value, the middles between neighbours, what lies right beside them, and the extremes."""
    finite = sorted({value for value in one.values if np.isfinite(value)})
    middles = [(low + high) / 2 for low, high in pairwise(finite)]
    exact = np.array([*finite, *middles], dtype=np.float32)
    beside = [np.nextafter(exact, np.float32(to), dtype=np.float32) for to in (np.inf, -np.inf)]
    most = np.float32(one.most)
    far = [most * 1.01, most * 1.03125, most * 1.0625, most * 2, 1e30, np.inf, np.nan, 1e-30, 1e-40, 0.0]
    random = np.random.default_rng(5).normal(0, 1, 4000) * 2.0 ** np.random.default_rng(6).integers(
        -20, 20, 4000
    )
    values = np.concatenate([exact, *beside, far, random]).astype(np.float32)
    return np.ascontiguousarray(np.concatenate([values, -values]))


@pytest.mark.parametrize("one", FORMATS.values(), ids=lambda one: one.torch)
def test_floats_round_to_the_nearest_code(library, one: Format) -> None:
    values = borders(one)
    got = call(library(one.flavour), f"{one.dtype}_round", values, np.uint8)
    want = np.array([one.encode(float(value)) for value in values], np.uint8)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("one", FORMATS.values(), ids=lambda one: one.torch)
def test_every_code_survives_the_round_trip(library, one: Format) -> None:
    wide = call(library(one.flavour), f"{one.dtype}_f32", CODES, np.float32)
    again = call(library(one.flavour), f"{one.dtype}_round", wide, np.uint8)
    number = np.isfinite(wide)
    assert np.array_equal(again[number], CODES[number])
    assert (again[np.isnan(wide)] == one.nan).all()
