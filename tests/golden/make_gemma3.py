"""Makes tests/golden/gemma3: a tiny gemma3 with random weights, and what transformers computes with it.

    pip install transformers==5.24.0 torch==2.13.0 && python tests/golden/make_gemma3.py

Weights are bfloat16 and computed with in float32, as in llama-wide. Of six layers the last sees everything,
its rotation stretched eight times; the window of the others is smaller than a page and the text. Norms are no
new model's: they differ from zero, so that it is seen what is added to them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

FOLDER = Path(__file__).parent / "gemma3"
CONFIG = Gemma3TextConfig(
    vocab_size=320,
    hidden_size=32,
    intermediate_size=20,
    num_hidden_layers=6,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=32,
    max_position_embeddings=512,
    sliding_window=50,
    query_pre_attn_scalar=32,
    rope_parameters={
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
)


def main() -> None:
    torch.manual_seed(3)
    model = Gemma3ForCausalLM(CONFIG).eval()
    tokens = np.random.default_rng(3).integers(0, 320, 300).astype(np.int32)
    positions = np.load(FOLDER.parent / "gemma2" / "positions.npy")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(0.0, 0.3 if name.endswith("norm.weight") else 0.15)
            weight.copy_(weight.bfloat16().float())
        logits = model(torch.from_numpy(tokens)[None].long()).logits[0]
    model.to(torch.bfloat16).save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink()
    np.save(FOLDER / "tokens.npy", tokens)
    np.save(FOLDER / "positions.npy", positions)
    np.save(FOLDER / "output.npy", logits.numpy()[positions])


if __name__ == "__main__":
    main()
