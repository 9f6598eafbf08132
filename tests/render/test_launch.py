"""How a GPU variant is launched."""

from dataclasses import replace

import pytest

from kgen.manifest import Box
from kgen.render.launch import kernels_of, launch_of
from kgen.syntax.ast import Int
from tests.codegen.disassembly import variant


@pytest.fixture
def split(accepted):
    """Decode in parts, which a second kernel combines, of an operator whose K comes in boxes."""
    made = next(v for v in accepted("golden") if "_gfx942_" in v.name and v.name.endswith("_p512"))
    boxed = {"k_cache": Int(16), "v_cache": Int(0)}
    arguments = tuple(replace(a, box=boxed.get(a.name)) for a in made.op.arguments)
    return replace(made, op=replace(made.op, arguments=arguments))


def test_boxes_are_parameters_of_the_first_kernel_alone(split):
    launch = launch_of(split)
    assert launch.boxes == (Box("k_cache", 16),)
    assert launch.then.symbol.endswith("_combine") and launch.then.boxes == () and launch.then.then is None


def test_templates_see_the_same_boxes(split):
    first, combine = kernels_of(split)
    assert [box.name for box in first.boxes] == ["k_cache"] and combine.boxes == ()
    assert first.boxes[0].map.startswith("a.k_cache, ")
    assert first.boxes[0].map.endswith(
        ", a.k_cache_stride_block, a.k_cache_stride_head, a.k_cache_stride_token, 16"
    )


def test_a_grid_may_have_shared_memory_of_its_own():
    sizes = {"dtype": "bf16", "head_dim": 128, "block_size": 16, "layout": "bshd"}
    made = variant("sm_90", reuse_kv_times=128, partition_size=512, **sizes)
    launch = launch_of(made)
    assert launch.dynamic_lds == made.lets["lds_bytes"] > 200_000
    assert launch.then.dynamic_lds == made.lets["combine_bytes"] == 4 * 8 * (128 + 2)
