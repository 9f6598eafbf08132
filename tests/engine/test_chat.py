"""Conversations keep the ids of what was said, so that later turns reuse their KV."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.diagnostics import KgenError
from kgen.engine import Chat, Completion, SamplingParams, TokenChat, Turn, converse, decoder, read_chats
from tests.engine.samples import SIZE, assert_whole, draw_prompts, make_engine, stock_tokens
from tests.engine.tokenizer import END, byte_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return byte_tokenizer()


def test_a_chat_is_its_template_and_keeps_the_ids_of_answers(tokenizer):
    chat = Chat(tokenizer, ["Hi", "And?"], system="Be kind.", end_tokens=frozenset([END]))
    first = chat.ask()
    assert tokenizer.decode(first) == (
        "<|start|>system\nBe kind.<|end|>\n<|start|>user\nHi<|end|>\n<|start|>assistant\n"
    )
    said = tokenizer.encode("Hé")
    chat.answer(Completion(0, (*said, END), "Hé", "stop"))
    second = chat.ask()
    assert second[: len(first) + len(said)] == [*first, *said]
    assert tokenizer.decode(second).endswith(
        "assistant\nHé<|end|>\n<|start|>user\nAnd?<|end|>\n<|start|>assistant\n"
    )
    assert chat.ask() is None


def test_an_answer_that_was_cut_short_is_closed_by_the_template(tokenizer):
    chat = Chat(tokenizer, ["Hi", "And?"], end_tokens=frozenset([END]))
    first = chat.ask()
    half = tokenizer.encode("é")[:1]
    chat.answer(Completion(0, tuple(half), "\ufffd", "length"))
    second = chat.ask()
    assert second[: len(first) + 2] == [*first, *half, END]


def test_a_template_that_rewrites_the_past_gets_new_ids(tokenizer):
    class Rewriting:
        chat_template = "x"
        encode = staticmethod(tokenizer.encode)

        def apply_chat_template(self, messages, **options):
            return f"{len(messages)}: {messages[-1]['content']}"

    chat = Chat(Rewriting(), ["one", "two"])
    assert tokenizer.decode(chat.ask()) == "1: one"
    chat.answer(Completion(0, tuple(tokenizer.encode("abc")), "abc", "length"))
    assert tokenizer.decode(chat.ask()) == "3: two"


def test_a_tokenizer_without_a_template_is_refused(tokenizer):
    class Bare:
        chat_template = None

    with pytest.raises(KgenError, match="no chat template"):
        Chat(Bare(), ["x"])


def test_sessions_run_side_by_side_and_reuse_what_is_theirs(model, llama):
    """What a session hits in its later turns is everything but the last token of the answer before."""
    sessions, steps = 3, 7
    beginning = draw_prompts(40)[0]
    added = [draw_prompts(3, 9, 5, seed=10 + session) for session in range(sessions)]
    engine = make_engine(model, block_size=1, max_batch_tokens=64)
    chats = [TokenChat(beginning, each) for each in added]
    found = [
        each
        for each in converse(engine, chats, SamplingParams(max_new_tokens=steps))
        if isinstance(each, Turn)
    ]
    assert sorted((turn.session, turn.number) for turn in found) == [
        (s, t) for s in range(3) for t in range(3)
    ]
    texts = [list(beginning) for _ in range(sessions)]
    for turn in sorted(found, key=lambda each: each.number):
        text = texts[turn.session]
        before = len(text)
        text += added[turn.session][turn.number]
        assert list(turn.prompt) == text
        answer = list(turn.result.completions[0].tokens)
        assert [answer] == stock_tokens(llama, text, steps)[0]
        text += answer
        cached = turn.result.cached_tokens
        if turn.number:
            assert cached == before - 1
        else:  # the others wait for the beginning that the first one computes
            assert cached == 0 if turn.session == 0 else cached >= len(beginning)
    assert_whole(engine)


def test_text_of_sessions_goes_through_a_tokenizer(tokenizer):
    """The text of events is the text of the answer, for any bytes the model may say."""
    from kgen.integrations.decoder import TransformersModel
    from tests.engine.samples import tiny_llama

    model = TransformersModel(tiny_llama(end_token=END, vocabulary=258))
    engine = make_engine(model, decode=decoder(tokenizer))
    chats = [Chat(tokenizer, ["Hi", "Go on"], system="Be brief.", end_tokens=model.end_tokens)]
    texts, turns = {}, []
    for event in converse(engine, chats, SamplingParams(max_new_tokens=20)):
        if isinstance(event, Turn):
            turns.append(event)
        else:
            texts[event.request_id] = texts.get(event.request_id, "") + event.text
    for turn in turns:
        (answer,) = turn.result.completions
        whole = tokenizer.decode(answer.tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert answer.text == texts[turn.session, turn.number] == whole
    reused = len(turns[0].prompt) + len(turns[0].result.completions[0].tokens) - 1
    assert turns[1].result.cached_tokens == reused // SIZE * SIZE > 0


def test_a_chat_file(tmp_path):
    path = tmp_path / "chats.json"
    path.write_text(json.dumps([["a", "b"], {"system": "s", "turns": ["c"]}]))
    assert [(each.turns, each.system) for each in read_chats(path)] == [(("a", "b"), None), (("c",), "s")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"chats.json:1:2: error\[K805\]: this is no JSON"),
        ("[]", "holds no list of sessions"),
        ('{"turns": ["a"]}', "holds no list of sessions"),
        ('[["a"], []]', "session 2 is no list of turns"),
        ('[["a", 3]]', "session 1 is no list of turns"),
        ('[{"turns": ["a"], "sytem": "x"}]', "session 1 has a field 'sytem'"),
        ('[{"turns": ["a"], "system": 3}]', "system is 3, expected text"),
    ],
)
def test_what_is_no_chat_file(tmp_path, text, message):
    path = tmp_path / "chats.json"
    path.write_text(text)
    with pytest.raises(KgenError, match=message):
        read_chats(path)
    with pytest.raises(KgenError, match="cannot read"):
        read_chats(tmp_path / "none.json")


@given(st.lists(st.text(max_size=8), min_size=2, max_size=4), st.data())
def test_ids_of_earlier_turns_never_change(turns, data):
    tokenizer = byte_tokenizer()
    chat = Chat(tokenizer, turns, end_tokens=frozenset([END]))
    decode, known = decoder(tokenizer), []
    while (prompt := chat.ask()) is not None:
        assert prompt[: len(known)] == known
        ids = data.draw(st.lists(st.integers(0, 255), max_size=6))
        ends = data.draw(st.booleans())
        chat.answer(Completion(0, (*ids, END) if ends else tuple(ids), decode(ids), "stop"))
        known = [*prompt, *ids]
