"""A causal language model of transformers as a `kgen.engine.Model`.

The network runs as it is; only attention is the engine's. A step is one batch row of packed tokens with a
position each, and no cache of transformers: the attention function hands the new keys and values to the
engine, which keeps them and attends. Any decoder whose layers all attend causally to everything before will
do (Llama and its family); layers with a window, a soft cap or sinks are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from kgen.diagnostics import Diagnostic, KgenError
from kgen.engine import Attend
from kgen.runtime import KVShape

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAME = "kgen_engine"
REFUSED = ("sliding_window", "softcap", "s_aux")
"""What a layer may ask of its attention and these calls do not give."""


class TransformersModel:
    """The model belongs to the engine while it steps: its attention is the engine's then.

    Raises KgenError (K556) for a model without what a decoder must say of itself.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        AttentionInterface.register(NAME, attention)
        self._model = model.eval()
        config = model.config.get_text_config()
        heads = config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        self.kv = KVShape(config.num_hidden_layers, kv_heads, head_dim, model.dtype)
        self.vocab_size: int = config.vocab_size
        self.max_positions: int = config.max_position_embeddings
        self.device: torch.device = model.device
        self.end_tokens = _end_tokens(model)
        if model.config.is_encoder_decoder:
            message = f"{type(model).__name__} has an encoder"
            raise KgenError(Diagnostic("K556", message, hint="the engine runs decoder-only models"))

    def forward(self, tokens: Tensor, positions: Tensor, wanted: Tensor, attend: Attend) -> Tensor:
        """The logits of the rows in `wanted`, see `kgen.engine.Model`. Raises KgenError (K557)."""
        if self._model.config._attn_implementation != NAME:
            self._model.set_attn_implementation(NAME)
        found = self._model(
            input_ids=tokens[None],
            position_ids=positions[None],
            use_cache=False,
            logits_to_keep=wanted,
            attend=attend,
        )
        logits: Tensor = found.logits[0].float()
        return logits


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    attend: Attend | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The attention function transformers calls: query [1, num_heads, rows, head_dim], key and value
    [1, num_kv_heads, rows, head_dim]; the output is [1, rows, num_heads, head_dim]."""
    if attend is None:
        message = f"attention '{NAME}' was called outside a step of an engine"
        raise KgenError(Diagnostic("K557", message, hint="call model.set_attn_implementation('sdpa') first"))
    for name in REFUSED:
        if options.get(name) is not None:
            message = f"layer {module.layer_idx} attends with {name}={options[name]}"
            hint = "the engine runs models whose layers attend to everything before"
            raise KgenError(Diagnostic("K557", message, hint=hint))
    q, k, v = (each[0].transpose(0, 1) for each in (query, key, value))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    return attend(int(module.layer_idx), q, k, v, scale)[None], None  # type: ignore[arg-type]


def _end_tokens(model: PreTrainedModel) -> frozenset[int]:
    """The end marks: of the generation settings where it has some, else of the model."""
    for config in (getattr(model, "generation_config", None), model.config):
        found = getattr(config, "eos_token_id", None)
        if found is not None:
            return frozenset([found] if isinstance(found, int) else found)
    return frozenset()
