"""What `kgen generate` keeps KV as: its torch dtype, and the scales of one of 8 bits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kgen.diagnostics import Diagnostic, KgenError

if TYPE_CHECKING:
    from kgen.engine import Model, Script
    from kgen.runtime import KVScales


def kept_dtype(name: str, device: Any) -> Any:
    """The torch dtype of a dtype of the specs on a torch device; 8-bit floats are of the flavour that kernels
    there read."""
    from kgen import api
    from kgen.dispatch.gpu import arch_of
    from kgen.targets.host import native_target
    from kgen.testing.memory import torch_dtype

    catalog = api.check()
    target = native_target(catalog) if device.type == "cpu" else arch_of(str(device))
    flavour = catalog.targets[target].numbers.fp8 if target in catalog.targets else "none"
    found = torch_dtype(name, flavour)
    if found is None:
        message = f"kernels for {target} read no {name}"
        raise KgenError(Diagnostic("K806", message, hint="--kv-dtype f32, f16 and bf16 can be had there"))
    return found


def scales_of(
    args: argparse.Namespace, scripts: Sequence[Script], model: Model, tokenizer: Any, dtype: Any
) -> KVScales | None:
    """Scales from the text of --calibration, or one of kgen's own, and from what is asked; None where the
    dtype has none."""
    from kgen.demo.prompts import ARTICLE
    from kgen.engine import calibrate
    from kgen.runtime import FLOAT8

    if dtype not in FLOAT8:
        if args.calibration is not None:
            message = f"--calibration is of no use with --kv-dtype {args.kv_dtype}"
            raise KgenError(Diagnostic("K806", message, hint="scales are for fp8_e4m3 and fp8_e5m2"))
        return None
    asked = ["\n".join((script.system or "", *script.turns)) for script in scripts]
    texts = [ARTICLE if args.calibration is None else _text(args), *asked]
    print("kgen: looking for the scales of 8-bit KV ...", file=sys.stderr, flush=True)
    return calibrate(model, [tokenizer.encode(text) for text in texts], dtype)


def _text(args: argparse.Namespace) -> str:
    try:
        text: str = args.calibration.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read {args.calibration}: {error}"
        raise KgenError(
            Diagnostic("K806", message, hint="--calibration wants a file of UTF-8 text")
        ) from None
    return text
