"""On a GPU: model, pages and kernels there, and tokens that the stock model there would choose too."""

import pytest
import torch

from tests.engine.samples import assert_whole, draw_prompts, make_engine, run, tiny_llama

pytestmark = pytest.mark.gpu
PROMPTS = draw_prompts(3, 40, 90, 91, shared=3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "settings", [{}, {"max_chunk": 16, "max_batch_tokens": 48}], ids=["whole", "in chunks"]
)
def test_greedy_tokens_are_among_the_likeliest_of_the_stock_model(dtype, settings):
    from kgen.integrations.decoder import TransformersModel

    llama = tiny_llama().to("cuda", dtype)
    engine = make_engine(TransformersModel(llama), **settings)
    results = [run(engine, PROMPTS, max_new_tokens=12) for _ in range(2)]
    assert sum(result.cached_tokens for result in results[1]) > 100
    llama.set_attn_implementation("sdpa")
    for prompt, result in zip(2 * PROMPTS, [*results[0], *results[1]], strict=True):
        tokens = list(result.completions[0].tokens)
        with torch.inference_mode():
            ids = torch.tensor([prompt + tokens], device="cuda")
            logits = llama(ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
        chosen = logits.gather(1, torch.tensor(tokens, device="cuda")[:, None])[:, 0]
        behind = logits.max(-1).values - chosen
        assert float(behind.max()) < 0.02 * float(logits.abs().max())
    assert_whole(engine)
