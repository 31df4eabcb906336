"""PyTorch's recurrent layers, forward and backward: the shapes of `crates/chumoku/examples/recurrent_speed.rs`.

    python bench/peers/torch_recurrent.py [THREADS]

Prints milliseconds (medians of ten runs after two) in float32, and under bf16 autocast.
"""

import statistics
import sys
import time

import torch
from torch import nn

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
SHAPES = [(32, 100, 256), (32, 128, 128), (32, 1024, 128), (8, 128, 256), (64, 64, 512), (1, 256, 256)]


def times(module, x, bf16):
    forward, both = [], []
    for run in range(12):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            y, _ = module(x)
        first = time.perf_counter()
        y.backward(y)
        last = time.perf_counter()
        if run > 1:
            forward.append(1e3 * (first - start))
            both.append(1e3 * (last - start))
    return statistics.median(forward), statistics.median(both)


print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
print(f"{'cell':<6}{'batch':>7}{'length':>8}{'width':>7}{'hidden':>8}{'numbers':>10}{'forward ms':>12}{'both ms':>12}")
for name, network in (("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)):
    for batch, length, width in SHAPES:
        for bf16 in (False, True):
            torch.manual_seed(1)
            module = network(width, width, batch_first=True)
            x = torch.randn(batch, length, width, requires_grad=True)
            try:
                forward, both = times(module, x, bf16)
                figures = f"{forward:>12.2f}{both:>12.2f}"
            except RuntimeError as error:
                figures = f"   {str(error).splitlines()[0][:60]}"
            numbers = "bf16" if bf16 else "f32"
            print(f"{name:<6}{batch:>7}{length:>8}{width:>7}{width:>8}{numbers:>10}{figures}", flush=True)
