"""The stock sessions are what transformers' generate gives, padded or not, and end at end marks."""

import torch

from kgen.demo.prompts import SESSIONS, conversations
from kgen.demo.stock import run_stock
from kgen.engine import TokenChat
from tests.engine.samples import draw_prompts, stock_tokens, tiny_llama

STEPS = 9


def sessions():
    added = [draw_prompts(3, 8, seed=session) for session in range(3)]
    return [
        TokenChat(beginning, each) for beginning, each in zip(draw_prompts(5, 40, 21), added, strict=True)
    ]


def test_every_turn_is_generate():
    llama, seen = tiny_llama(), []
    stock = run_stock(
        llama, sessions(), STEPS, frozenset(), None, lambda name, token: seen.append((name, token))
    )
    chats = sessions()
    for turn in range(2):
        for session, chat in enumerate(chats):
            prompt = chat.ask()
            ((tokens),) = stock_tokens(llama, prompt, STEPS)[0]
            assert list(stock.answers[session, turn]) == tokens
            assert [token for name, token in seen if name == (session, turn)] == tokens
            assert [int(step[session].argmax()) for step in stock.logits[turn]] == tokens
            chat.answer(type("Answer", (), {"tokens": tuple(tokens)}))
    assert len(stock.answers) == 6
    assert stock.prompt_tokens == 2 * (5 + 40 + 21) + 3 * (3 + 3 + 8) + 3 * STEPS
    assert stock.decode_tokens == 2 * 3 * (STEPS - 1) and stock.seconds > 0


def test_an_answer_ends_with_its_end_mark():
    llama = tiny_llama()
    whole = run_stock(llama, sessions(), STEPS, frozenset(), None, lambda *a: None).answers[0, 0]
    end = next(token for token in whole if token not in whole[:3])
    ended = run_stock(llama, sessions(), STEPS, frozenset([end]), None, lambda *a: None).answers[0, 0]
    assert ended == whole[: whole.index(end) + 1]


def test_sessions_without_a_tokenizer_are_seeded_begin_alike_and_stay_in_range():
    first, again = ([chat.ask() for chat in conversations(None, 101, frozenset())] for _ in range(2))
    assert first == again and len(first) == len(SESSIONS)
    assert len({tuple(prompt[:400]) for prompt in first}) == 1 < len({tuple(prompt) for prompt in first})
    assert all(3 <= token < 101 for prompt in first for token in prompt)
    assert len({len(turns) for turns in SESSIONS}) == 1


def test_logits_are_of_the_dtype_that_is_compared():
    stock = run_stock(tiny_llama(), sessions()[:1], 2, frozenset(), None, lambda *a: None)
    assert stock.logits[0][0].dtype == torch.float32
