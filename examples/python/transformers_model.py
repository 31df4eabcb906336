"""Watches a transformers model with Chumoku's attention. Needs PyTorch and transformers; uses a random model."""

import chumoku.torch
import torch
from transformers import AutoModel, BertConfig

torch.manual_seed(0)
config = BertConfig(vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
# With a published model: AutoModel.from_pretrained(folder), and its tokenizer as the second argument of watch.
model = AutoModel.from_config(config).eval()

ids = torch.randint(0, 1000, (2, 12))
mask = torch.ones_like(ids)
mask[1, 8:] = 0  # the second text is shorter
with torch.no_grad(), chumoku.torch.watch(model) as seen:
    model(input_ids=ids, attention_mask=mask)
for i, layer in enumerate(seen):
    print(f"layer {i + 1}: entropy by head", [round(x, 2) for x in layer.entropy[0].mean(-1).tolist()])
assert (seen[0].mass[1, :, 8:] == 0).all(), "nothing falls to padding"
# The page of `chumoku explain`. In a notebook, seen.show() displays it.
seen.explain(item=1).save("page.html")
