"""Greedy tokens are those of the stock model, however the work is cut, cached, moved or interrupted."""

import pytest

from kgen.diagnostics import KgenError
from kgen.engine import GenerateRequest, SamplingParams, TokenEvent
from tests.engine.samples import (
    SIZE,
    Oracle,
    assert_whole,
    draw_prompts,
    make_engine,
    run,
    stock_tokens,
    tokens_of,
)

STEPS = 20
PROMPTS = draw_prompts(3, 40, 61, 70, shared=3)


@pytest.fixture(scope="module")
def expected(llama):
    """Each prompt alone, through transformers' generate."""
    found = [stock_tokens(llama, prompt, STEPS)[0] for prompt in PROMPTS]
    assert len({token for rows in found for token in rows[0]}) > 20
    return found


@pytest.mark.parametrize("chunk", [None, 1, 7, 16, 50])
@pytest.mark.parametrize("cached", [True, False])
def test_greedy_tokens_are_those_of_generate(model, expected, cached, chunk):
    engine = make_engine(model, prefix_cache=cached, max_chunk=chunk, max_batch_tokens=64)
    results = run(engine, PROMPTS, max_new_tokens=STEPS)
    assert tokens_of(results) == expected
    assert {each.finish for result in results for each in result.completions} == {"length"}
    # Once more: with the cache whole pages of each prompt are there, and the tokens are still the same.
    again = run(engine, PROMPTS, max_new_tokens=STEPS)
    assert tokens_of(again) == expected
    whole = [(len(prompt) - 1) // SIZE * SIZE if cached else 0 for prompt in PROMPTS]
    assert [result.cached_tokens for result in again] == whole
    assert engine.stats.reused_tokens == sum(result.cached_tokens for result in (*results, *again))
    assert_whole(engine)


def test_the_oracle_as_kernels_gives_the_same_tokens(model, expected):
    engine = make_engine(model, kernels=Oracle(), max_chunk=25)
    assert tokens_of(run(engine, PROMPTS, max_new_tokens=STEPS)) == expected
    assert_whole(engine)


@pytest.mark.parametrize(("preemption", "host"), [("recompute", 0), ("swap", 32), ("swap", 3)])
def test_preemption_changes_no_token(model, expected, preemption, host):
    engine = make_engine(
        model, blocks=13, preemption=preemption, host_blocks=host, max_chunk=20, prefix_cache=False
    )
    results = run(engine, PROMPTS, max_new_tokens=STEPS)
    assert tokens_of(results) == expected
    stats = engine.stats
    assert stats.preemptions > 0 and sum(result.preemptions for result in results) == stats.preemptions
    # Three host pages hold nobody here: computed again instead.
    assert (engine.scheduler.totals.swapped_pages > 0) == (host == 32)
    assert_whole(engine)


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_a_request_retracted_again_and_again_gets_the_same_tokens(model, expected, preemption):
    engine = make_engine(model, preemption=preemption, host_blocks=40, max_chunk=20)
    for place, prompt in enumerate(PROMPTS):
        engine.submit(GenerateRequest(place, prompt, SamplingParams(max_new_tokens=STEPS)))
    results = {}
    for number in range(10_000):
        if not engine.has_work:
            break
        events = [event for event in engine.step() if not isinstance(event, TokenEvent)]
        results |= {event.request_id: event for event in events}
        victim = number % len(PROMPTS)
        if number % 3 == 0 and victim not in results:
            engine.scheduler.retract(victim, preemption)
    assert tokens_of([results[place] for place in range(len(PROMPTS))]) == expected
    assert engine.stats.preemptions > 4
    assert_whole(engine)


def test_later_turns_reuse_what_earlier_ones_computed(model, llama):
    """Prompt and answer of a turn, but for its last token, whose KV was never written."""
    engine = make_engine(model, block_size=1)
    text, computed = draw_prompts(30)[0], 0
    for turn, more in enumerate(draw_prompts(5, 6, 7, 8, seed=2)):
        text = text + more
        (result,) = run(engine, [text], max_new_tokens=9)
        assert tokens_of([result]) == [stock_tokens(llama, text, 9)[0]]
        assert result.cached_tokens == computed, turn
        text += result.completions[0].tokens
        computed = len(text) - 1
    assert engine.stats.hit_rate == engine.stats.reused_tokens / engine.stats.prompt_tokens > 0.5
    assert engine.stats.prefill_tokens == engine.stats.prompt_tokens - engine.stats.reused_tokens
    assert_whole(engine)


def test_a_namespace_shares_with_nobody_else(model):
    from kgen.runtime import Namespace

    engine = make_engine(model)
    params = SamplingParams(max_new_tokens=2)
    for name, namespace, hit in (("a", "x", 0), ("b", "y", 0), ("c", "x", 64)):
        request = GenerateRequest(name, PROMPTS[3], params, Namespace(salt=namespace))
        assert engine.generate([request])[0].cached_tokens == hit


def test_events_are_the_tokens_of_the_result(model):
    engine = make_engine(model)
    for place, prompt in enumerate(PROMPTS[:2]):
        engine.submit(GenerateRequest(place, prompt, SamplingParams(max_new_tokens=5)))
    events = list(engine.stream())
    for place in range(2):
        mine = [event for event in events if event.request_id == place]
        *tokens, result = mine
        assert [event.token for event in tokens] == list(result.completions[0].tokens)
        assert [event.finish for event in tokens] == [None] * 4 + ["length"]
        assert result.arrived <= result.first_token <= result.finished


def test_a_stop_token_ends_a_text_and_can_be_ignored(model, expected):
    token = next(t for t in expected[1][0] if t not in expected[1][0][:3])
    place = expected[1][0].index(token)
    engine = make_engine(model)
    (result,) = run(engine, [PROMPTS[1]], max_new_tokens=STEPS, stop_tokens=(token,))
    assert tokens_of([result]) == [[expected[1][0][: place + 1]]]
    assert result.completions[0].finish == "stop"
    model.end_tokens = frozenset([token])
    try:
        (ended,) = run(engine, [PROMPTS[1]], max_new_tokens=STEPS)
        (ignored,) = run(engine, [PROMPTS[1]], max_new_tokens=STEPS, ignore_eos=True)
    finally:
        model.end_tokens = frozenset()
    assert ended.completions == result.completions
    assert tokens_of([ignored]) == [expected[1]]


def test_abort_at_every_step_leaks_nothing(model, expected):
    for when in range(14):
        engine = make_engine(model, blocks=40, max_chunk=9, host_blocks=4, preemption="swap")
        for place, prompt in enumerate(PROMPTS):
            params = SamplingParams(max_new_tokens=STEPS, n=2, temperature=1.0) if place == 2 else None
            params = params or SamplingParams(max_new_tokens=STEPS)
            engine.submit(GenerateRequest(place, prompt, params))
        for _ in range(when):
            engine.step()
        ended = {place: engine.abort(place) for place in (2, 1)}
        engine.check_integrity()
        tokens = ended[1].completions[0].tokens
        assert ended[1].completions[0].finish == "abort"
        assert list(tokens) == expected[1][0][: len(tokens)]
        others = {event.request_id: event for event in engine.stream() if not isinstance(event, TokenEvent)}
        assert tokens_of([others[0], others[3]]) == [expected[0], expected[3]]
        assert_whole(engine)
    with pytest.raises(KgenError, match="no request 1 is under way"):
        engine.abort(1)


def test_a_step_that_fails_is_done_again(model, expected):
    class Failing(Oracle):
        calls = 0

        def decode(self, *arguments):
            self.calls += 1
            if self.calls in (2, 9):
                raise RuntimeError("out of luck")
            return super().decode(*arguments)

    engine = make_engine(model, kernels=Failing())
    for place, prompt in enumerate(PROMPTS):
        engine.submit(GenerateRequest(place, prompt, SamplingParams(max_new_tokens=STEPS)))
    found, failures = {}, 0
    while engine.has_work:
        try:
            events = engine.step()
        except RuntimeError:
            failures += 1
            engine.check_integrity()
            continue
        found |= {event.request_id: event for event in events if not isinstance(event, TokenEvent)}
    assert failures == 2 and tokens_of([found[place] for place in range(4)]) == expected
    assert_whole(engine)
