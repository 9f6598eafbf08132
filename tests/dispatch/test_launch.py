"""The argument block a kernel receives, word by word, through both bindings."""

import struct
import threading

import pytest
import torch

from kgen.diagnostics import KgenError
from kgen.dispatch import launch, threads
from kgen.manifest import ABI_VERSION
from tests.dispatch.toy import OPERATOR, POLICY, WORDS, toy_dispatcher

PLACES = {word.name: place for place, word in enumerate(WORDS)}


def arguments(
    rows=3, heads=8, kv_heads=2, head_dim=8, blocks=5, block_size=16, dtype=torch.float32, **changes
):
    """The positional arguments of a toy call."""
    values = {
        "echo": torch.zeros(len(WORDS), dtype=torch.int64),
        "x": torch.randn(rows, heads, head_dim).to(dtype),
        "k_cache": torch.zeros(5, 16, 2, head_dim, dtype=dtype),
        "v_cache": torch.zeros(5, 16, 2, head_dim, dtype=dtype),
        "lse": None,
        "scale": 0.25,
        "limit": 100,
        "fail": 0,
        "layout": "bshd",
        "partition_size": None,
        "reuse": None,
        "policy": None,
        "arch": None,
    }
    return {**values, **changes}


def words_of(call, values):
    """What the kernel saw, by name."""
    assert call(*values.values()) is True
    return dict(zip(PLACES, values["echo"].tolist(), strict=True))


@pytest.fixture
def call(compiler):
    return toy_dispatcher(compiler, {}, {"partition_size": 512}).caller(OPERATOR)


def test_every_word(call):
    values = arguments(lse=torch.zeros(3, 8))
    seen = words_of(call, values)
    runtime = threads.runtime()
    count = torch.get_num_threads()
    assert seen["abi"] == ABI_VERSION
    assert seen["words"] == len(WORDS)
    assert (seen["parallel"], seen["thread_num"]) == (
        (runtime.parallel, runtime.thread_num) if count > 1 else (0, 0)
    )
    assert seen["num_threads"] == count
    for name in ("echo", "x", "k_cache", "v_cache", "lse"):
        assert seen[name] == values[name].data_ptr()
    assert (seen["lse_stride_row"], seen["x_stride_row"], seen["x_stride_head"]) == (8, 64, 8)
    assert [seen[f"k_cache_stride_{axis}"] for axis in ("block", "head", "token", "dim")] == [256, 8, 16, 1]
    assert seen["scale"] == struct.unpack("<q", struct.pack("<d", 0.25))[0]
    assert (seen["limit"], seen["fail"]) == (100, 0)
    assert (seen["sums"], seen["parts"], seen["parts_stride_row"]) == (0, 0, 0)
    facts = (
        "num_words",
        "num_rows",
        "num_heads",
        "num_blocks",
        "num_kv_heads",
        "group",
        "passes",
        "num_parts",
    )
    assert [seen[name] for name in facts] == [len(WORDS), 3, 8, 5, 2, 4, 1, 1]


def test_tensors_of_a_torch_without_an_exchange_table(compiler, monkeypatch):
    monkeypatch.setattr(launch, "exchange_table", lambda: None)
    call = toy_dispatcher(compiler, {}, {"reuse": 8}).caller(OPERATOR)
    wide = torch.randn(3, 16, 8)
    for x, heads in ((wide[:, :8], 8), (wide, 16), (wide[:, 8:], 8)):
        values = arguments(x=x)
        seen = words_of(call, values)
        assert (seen["x"], seen["x_stride_row"], seen["num_heads"]) == (x.data_ptr(), 128, heads)
    half = arguments(dtype=torch.float16)
    words_of(call, half)  # another dtype is another plan, and here another kernel
    assert [params["dtype"] for params in compiler.built] == ["f16"]


def test_a_kept_plan_takes_new_pointers_and_scalars(call):
    first, second = arguments(), arguments(scale=0.75)
    words_of(call, first)
    again = words_of(call, second)
    assert again["x"] == second["x"].data_ptr() != first["x"].data_ptr()
    assert again["scale"] == struct.unpack("<q", struct.pack("<d", 0.75))[0]


def test_defaults_of_scalars_do_not_stick(call):
    bits = lambda value: struct.unpack("<q", struct.pack("<d", value))[0]  # noqa: E731
    assert words_of(call, arguments(scale=0.5))["scale"] == bits(0.5)
    assert words_of(call, arguments(scale=None))["scale"] == bits(0.125)
    assert words_of(call, arguments(scale=0.5))["scale"] == bits(0.5)
    assert words_of(call, arguments(scale=None))["scale"] == bits(0.125)


def test_a_change_of_shape_stride_or_keyword_makes_a_new_plan(call):
    assert words_of(call, arguments(rows=3))["num_rows"] == 3
    assert words_of(call, arguments(rows=4))["num_rows"] == 4
    wide = torch.randn(3, 8, 24)
    assert words_of(call, arguments(x=wide[..., 8:16]))["x_stride_row"] == 192
    assert words_of(call, arguments(x=wide[..., 8:16], partition_size=512))["num_parts"] == 1
    assert words_of(call, arguments(limit=1025, partition_size=512))["num_parts"] == 3


def test_a_scalar_that_changes_is_checked_each_time(call):
    for limit in (5, 6, 7):
        assert words_of(call, arguments(limit=limit))["limit"] == limit
    with pytest.raises(KgenError, match="limit is a length"):
        call(*arguments(limit=-1).values())
    assert words_of(call, arguments(limit=1100, partition_size=512))["num_parts"] == 3
    with pytest.raises(KgenError, match="partition_size=True, but partition_size is an int"):
        call(*arguments(limit=9, partition_size=True).values())


def test_more_signatures_than_are_kept(call):
    for limit in (*range(101, 101 + launch.MAX_PLANS + 10), 150):
        assert words_of(call, arguments(limit=limit, partition_size=512))["limit"] == limit


def test_strides_are_honoured(call):
    pair = torch.zeros(5, 2, 16, 2, 8)  # keys and values interleaved in one tensor
    fused = torch.randn(3, 12, 8)  # queries, keys and values of a projection
    values = arguments(x=fused[:, :8], k_cache=pair[:, 0], v_cache=pair[:, 1])
    seen = words_of(call, values)
    assert seen["x_stride_row"] == 96
    assert seen["k_cache_stride_block"] == seen["v_cache_stride_block"] == 512
    assert seen["v_cache"] - seen["k_cache"] == 256 * 4


def test_packed_layout_strides(compiler):
    call = toy_dispatcher(compiler, {"layout": "packed"}).caller(OPERATOR)
    k = torch.zeros(5, 2, 2, 16, 4)  # f32: groups of 4 elements
    v = torch.zeros(5, 2, 8, 16)
    seen = words_of(call, arguments(k_cache=k, v_cache=v, layout="packed"))
    assert [seen[f"k_cache_stride_{axis}"] for axis in ("block", "head", "token", "dim")] == [256, 128, 4, 64]
    assert [seen[f"v_cache_stride_{axis}"] for axis in ("block", "head", "token", "dim")] == [256, 128, 1, 16]


def test_strides_past_two_to_the_31(call):
    far = torch.zeros(1, 16, 2, 8).as_strided((1, 16, 2, 8), (2**33, 16, 8, 1))
    assert words_of(call, arguments(k_cache=far, v_cache=far))["k_cache_stride_block"] == 2**33


def test_workspace_words(compiler):
    dispatcher = toy_dispatcher(compiler, {"partition_size": 512})
    seen = words_of(dispatcher.caller(OPERATOR), arguments(limit=1100, rows=3))
    parts, sums = 3 * 3 * 8 * 4, 3 * 3 * 4
    base = dispatcher.workspaces.address(parts + sums)
    assert (seen["parts"], seen["sums"]) == (base, base + parts)
    assert dispatcher.workspaces.held() == parts + sums
    assert (seen["parts_stride_row"], seen["parts_stride_part"], seen["sums_stride_row"]) == (24, 8, 3)
    assert base % 64 == 0


def test_a_workspace_only_grows_and_is_a_threads_own(compiler):
    dispatcher = toy_dispatcher(compiler, {"partition_size": 512})
    call = dispatcher.caller(OPERATOR)
    large = words_of(call, arguments(limit=9000))["parts"]
    small = words_of(call, arguments(limit=600))["parts"]
    assert large == small
    seen = []
    thread = threading.Thread(target=lambda: seen.append(words_of(call, arguments(limit=9000))["parts"]))
    thread.start()
    thread.join()
    assert seen[0] != large


def test_a_workspace_that_is_outgrown_at_least_doubles(compiler):
    dispatcher = toy_dispatcher(compiler, {"partition_size": 512})
    call = dispatcher.caller(OPERATOR)
    held = []
    for limit in range(512, 65 * 512, 512):
        parts = words_of(call, arguments(limit=limit, rows=3))["num_parts"]
        held.append(dispatcher.workspaces.held())
        assert held[-1] >= parts * 3 * 9 * 4
    assert len(set(held)) == 7  # 64 parts, one more each time
    assert dispatcher.workspaces.address(held[-1]) == dispatcher.workspaces.address(1)


def test_a_variable_is_seen_by_the_next_call(compiler, monkeypatch):
    call = toy_dispatcher(compiler, {}, {"partition_size": 512}, {"partition_size": 256}).caller(OPERATOR)
    parts = lambda: words_of(call, arguments(limit=1024))["num_parts"]  # noqa: E731
    seen = [parts()]
    for name, value in (("UNRELATED", "1"), ("PA_PARTITION_SIZE", "256"), ("PA_PARTITION_SIZE", "512")):
        monkeypatch.setenv(name, value)
        seen.append(parts())
    monkeypatch.setenv("UNRELATED", "2")
    monkeypatch.setenv("PA_PARTITION_SIZE", "256")
    seen.append(parts())
    monkeypatch.delenv("PA_PARTITION_SIZE")
    assert [*seen, parts()] == [2, 2, 4, 2, 4, 2]


def test_threads_follow_torch_and_the_environment(call, monkeypatch):
    count = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        seen = words_of(call, arguments())
        assert (seen["num_threads"], seen["parallel"], seen["thread_num"]) == (1, 0, 0)
    finally:
        torch.set_num_threads(count)
    monkeypatch.setenv("KGEN_NUM_THREADS", "3")
    seen = words_of(call, arguments())
    assert (seen["num_threads"], seen["parallel"] != 0) == (3, threads.runtime().parallel != 0)
    monkeypatch.delenv("KGEN_NUM_THREADS")
    assert words_of(call, arguments())["num_threads"] == count


def test_an_empty_call_does_nothing(call):
    values = arguments(echo=torch.zeros(0, dtype=torch.int64))
    assert call(*values.values()) is True


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (2, "row 3, page 4: block id 5 is outside the pool of 5 blocks"),
        (3, "row 3: sequence length 5 is outside 0 to 4"),
        (4, "token 3: slot 5 is outside the pool of 4 slots"),
        (5, "block_mapping rows 3 and 4 both touch block 5"),
        (77, "the kernel reported error 77 (3, 4, 5)"),
    ],
)
def test_what_a_kernel_reports_is_raised(call, code, message):
    values = arguments(fail=code)
    with pytest.raises(KgenError) as caught:
        call(*values.values())
    assert message in str(caught.value)
    assert not values["echo"].any()
    assert words_of(call, arguments())["fail"] == 0


def test_calls_are_counted_by_kernel(compiler):
    dispatcher = toy_dispatcher(compiler, {})
    call = dispatcher.caller(OPERATOR)
    for _ in range(3):
        words_of(call, arguments())
    assert list(dispatcher.calls().values()) == [3]


def test_tensor_subclasses_and_dispatch_modes_are_left_to_torch(call):
    class Mine(torch.Tensor):
        pass

    values = arguments()
    assert call(*{**values, "x": values["x"].as_subclass(Mine)}.values()) is False
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        pass

    with Mode():
        assert call(*values.values()) is False
    assert not values["echo"].any()
    parameter = torch.nn.Parameter(values["x"], requires_grad=False)
    assert call(*{**values, "x": parameter}.values()) is True


def test_wrapped_tensors_without_memory_are_left_to_torch(call):
    values = arguments()
    answers = []

    def inside(x):
        answers.append(call(*{**values, "x": x}.values()))
        return x

    torch.vmap(inside)(torch.randn(2, *values["x"].shape))
    assert answers == [False]
    assert not values["echo"].any()


def test_numbers_that_are_no_ints_are_left_to_torch_or_taken(call):
    class Index:
        def __index__(self):
            return 100

    values = arguments(limit=Index())
    if call(*values.values()):
        assert values["echo"][PLACES["limit"]] == 100


def test_threads_that_call_at_once(call):
    wrong = []

    def work(rows):
        seen = [words_of(call, arguments(rows=rows))["num_rows"] for _ in range(200)]
        wrong.extend(value for value in seen if value != rows)

    workers = [threading.Thread(target=work, args=(rows,)) for rows in range(1, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_the_words_of_the_toy_are_all_named_once():
    assert len(PLACES) == len(WORDS) == len(POLICY.words)
