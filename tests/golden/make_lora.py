"""Makes tests/golden/lora: an adapter of the golden llama by PEFT, and transformers' logits with it.

pip install torch==2.14.1 transformers==5.24.0 peft==0.21.2
python tests/golden/make_lora.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

GOLDEN = Path(__file__).parent
TARGETS = ["q_proj", "k_proj", "o_proj", "down_proj"]
LENGTH = 120


def main() -> None:
    torch.manual_seed(11)
    model = AutoModelForCausalLM.from_pretrained(
        GOLDEN / "llama", dtype=torch.float32, attn_implementation="eager"
    )
    config = LoraConfig(
        r=4, lora_alpha=10, target_modules=TARGETS, use_rslora=True, init_lora_weights=False,
        task_type="CAUSAL_LM",
    )  # fmt: skip
    adapted = get_peft_model(model, config).eval()
    adapted.peft_config["default"].base_model_name_or_path = "llama"
    folder = GOLDEN / "lora"
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    tokens = torch.tensor(np.load(GOLDEN / "llama" / "tokens.npy")[None, :LENGTH].astype(np.int64))
    with torch.no_grad():
        np.save(folder / "output.npy", adapted(tokens).logits[0, ::10].numpy())


if __name__ == "__main__":
    main()
