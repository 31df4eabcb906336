"""An unchanged PyTorch program on Chumoku's kernels. Needs PyTorch."""

import chumoku.torch
import torch

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)
x = torch.randn(8, 128, 256)


def gradient():
    layer.zero_grad()
    layer(x).square().mean().backward()
    return layer.self_attn.in_proj_weight.grad.clone()


before = gradient()
chumoku.torch.activate()
after = gradient()
print("largest difference of a gradient:", (before - after).abs().max().item())

query = torch.randn(1, 8, 128, 32)
print(chumoku.torch.explain(query, query, query, is_causal=True))
print(chumoku.torch.explain(query, query, query, dropout_p=0.1))
