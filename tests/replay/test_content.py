"""Token ids: equal content has equal ids, and nothing else has."""

import numpy as np

from kgen.replay.content import Content
from kgen.replay.traces import TraceRequest


def test_equal_hash_ids_give_equal_tokens():
    content = Content()
    long = content.prompt(TraceRequest(0, 1500, 1, (4, 9, 2)))
    short = content.prompt(TraceRequest(0, 700, 1, (4, 9)))
    other = content.prompt(TraceRequest(0, 700, 1, (4, 8)))
    assert long.dtype == np.int32 and (len(long), len(short)) == (1500, 700)
    assert np.array_equal(long[:700], short)
    assert np.array_equal(other[:512], short[:512]) and not set(other[512:]) & set(short)
    assert len(set(long.tolist())) == 1500


def test_what_has_no_name_is_never_equal():
    content = Content()
    parts = [content.prompt(TraceRequest(0, 30, 1)), [content.output() for _ in range(5)]]
    parts += [content.prompt(TraceRequest(0, 20, 1)), content.prompt(TraceRequest(0, 20, 1, (0,)))]
    tokens = [int(token) for part in parts for token in part]
    assert len(set(tokens)) == len(tokens) == 75
