"""What a request, or a model, must be; said before anything has changed."""

from __future__ import annotations

import numpy as np

from kgen.engine.errors import fault
from kgen.engine.model import Model
from kgen.engine.request import GenerateRequest


def check_model(model: Model) -> None:
    """Raise K803 for a model that nothing can be computed with."""
    if model.vocab_size < 1 or model.max_positions < 2:
        message = f"the model has a vocabulary of {model.vocab_size} and {model.max_positions} positions"
        raise fault("K803", message)


def check_request(request: GenerateRequest, model: Model, has_text: bool) -> None:
    """Raise K802 for a prompt or a parameter that does not fit the model."""
    name, params = request.request_id, request.params
    if not len(request.prompt):
        raise fault("K802", f"request {name!r} has an empty prompt", "give it at least one token")
    _check_ids(f"the prompt of request {name!r}", request.prompt, model.vocab_size)
    _check_ids(f"stop_tokens of request {name!r}", params.stop_tokens, model.vocab_size)
    longest = len(request.prompt) + params.max_new_tokens
    if longest > model.max_positions:
        message = (
            f"request {name!r} has {len(request.prompt)} prompt tokens and may get {params.max_new_tokens}; "
            f"the model has {model.max_positions} positions"
        )
        raise fault("K802", message, "shorten the prompt or lower max_new_tokens")
    if params.stop and not has_text:
        message = f"request {name!r} stops at strings, but the engine makes no text"
        raise fault("K802", message, "give Engine a decode function, or use stop_tokens")
    if params.beams > model.vocab_size // 2:
        message = f"request {name!r} wants {params.beams} beams of a vocabulary of {model.vocab_size}"
        raise fault("K802", message)


def _check_ids(what: str, ids: object, vocab_size: int) -> None:
    found = np.asarray(ids)
    if found.size and (found.ndim != 1 or found.dtype.kind not in "iu"):
        raise fault("K802", f"{what}: expected a list of token ids, found {found.dtype} of {found.shape}")
    wrong = np.flatnonzero((found < 0) | (found >= vocab_size))
    if wrong.size:
        place = int(wrong[0])
        message = f"{what}: token {found[place]} at place {place} is outside the vocabulary of {vocab_size}"
        raise fault("K802", message, "is the tokenizer that of this model?")
