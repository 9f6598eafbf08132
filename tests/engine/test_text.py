"""Text as it comes: whole characters, no beginning of a stop string, and all of it in the end."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgen.engine import GenerateRequest, SamplingParams, TextStream, TokenEvent
from tests.engine.samples import draw_prompts, make_engine


def decode(tokens):
    """A tokenizer of bytes; ids from 256 on are special and have no text."""
    return bytes(token for token in tokens if token < 256).decode("utf-8", errors="replace")


def feed(tokens, stop=()):
    """The pieces of a text, and whether a stop string ended it."""
    stream, pieces = TextStream(), []
    for token in tokens:
        piece = stream.add(token, decode, stop)
        stream = piece.stream
        pieces.append(piece.text)
        if piece.stopped:
            return pieces, True
    return [*pieces, stream.flush(decode)], False


def test_characters_come_whole():
    pieces, _ = feed("aé漢🙂".encode())
    assert pieces == ["a", "", "é", "", "", "漢", "", "", "", "🙂", ""]


def test_what_stays_broken_comes_at_the_end():
    assert feed([*b"a", 0xE6, 0xBC]) == (["a", "", "", "\ufffd"], False)
    assert "".join(feed([*b"a", 0xE6, *b"bc"])[0]) == "a\ufffdbc"


def test_special_tokens_have_no_text():
    assert "".join(feed([*b"a", 300, *"é".encode(), 301])[0]) == "aé"


def test_a_stop_string_and_what_might_become_one_are_held_back():
    assert feed(b"one END two", (" END",)) == (["o", "n", "e", "", "", "", ""], True)
    assert feed(b"an ENemy", (" END",))[0] == ["a", "n", "", "", "", " ENe", "m", "y", ""]
    assert "".join(feed(b"an EN", (" END",))[0]) == "an EN"


def test_the_earliest_of_several_ends_the_text():
    pieces, stopped = feed("x🙂yz".encode(), ("z", "🙂y"))
    assert stopped and "".join(pieces) == "x"


def test_leading_spaces_depend_on_what_comes_before():
    """A decoder that drops the space of a first word, as several do."""
    words = {1: " one", 2: " two", 3: " three"}

    def joined(tokens):
        return "".join(words[token] for token in tokens).removeprefix(" ")

    stream, pieces = TextStream(), []
    for token in (1, 2, 3):
        piece = stream.add(token, joined, ())
        stream = piece.stream
        pieces.append(piece.text)
    assert pieces == ["one", " two", " three"]


@given(st.text(max_size=30), st.lists(st.text(min_size=1, max_size=3), max_size=3))
def test_pieces_join_to_the_text_before_the_first_stop(text, stop):
    pieces, stopped = feed(text.encode(), tuple(stop))
    # The end that comes first as the text grows, byte by byte.
    ends = [text.find(each) + len(each) for each in stop if each in text]
    if not ends:
        assert not stopped and "".join(pieces) == text
        return
    seen = text[: min(ends)]
    assert stopped and "".join(pieces) == seen[: min(seen.find(each) for each in stop if each in seen)]
    assert "\ufffd" not in "".join(pieces) or "\ufffd" in text


@given(st.binary(max_size=20))
def test_any_bytes_come_out_as_they_decode(data):
    assert "".join(feed(data)[0]) == data.decode("utf-8", errors="replace")


def test_an_engine_streams_text_and_stops_at_strings(model):
    (prompt,) = draw_prompts(20)

    def letters(tokens):
        return "".join(chr(0x4E00 + token) for token in tokens)

    engine = make_engine(model, decode=letters)
    engine.submit(GenerateRequest("x", prompt, SamplingParams(max_new_tokens=12)))
    *events, result = engine.stream()
    (whole,) = result.completions
    assert whole.text == letters(whole.tokens) == "".join(event.text for event in events)
    stop = whole.text[5:7]
    first = whole.text.find(stop)
    engine.submit(GenerateRequest("y", prompt, SamplingParams(max_new_tokens=12, stop=(stop,))))
    *events, result = engine.stream()
    (ended,) = result.completions
    assert (ended.text, ended.finish) == (whole.text[:first], "stop")
    assert ended.tokens == whole.tokens[: first + 2]
    assert "".join(event.text for event in events if isinstance(event, TokenEvent)) == ended.text


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_stream_is_not_changed_by_what_is_added(length):
    streams = list(
        itertools.accumulate(
            "é🙂"[:length].encode(), lambda s, t: s.add(t, decode, ("x",)).stream, initial=TextStream()
        )
    )
    before = [(s.tokens, s.context, s.held) for s in streams]
    for stream in streams:
        stream.add(120, decode, ("x",))
    assert [(s.tokens, s.context, s.held) for s in streams] == before
