"""The peer of `chumoku bench attention`: PyTorch's scaled_dot_product_attention on random data.

    python torch_attention.py --length 4096                                     f32, forward
    python torch_attention.py --length 4096 --dtype bf16 --backward --threads 1
    python torch_attention.py --length 1 --keys 8192 --heads 32 --kv-heads 8 --dim 128 --dtype bf16       decode

Checks the result in double precision (sampled rows, with their gradients) before the timing. Prints one JSON object
with the fields of `chumoku bench attention`.
"""

import argparse
import json
import math
import statistics
import time
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
ALLOWED = {"f32": 1e-4, "bf16": 5e-2, "f16": 1e-2}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--kv-heads", type=int, help="number of key and value heads (default: that of queries)")
    parser.add_argument("--length", type=int, default=1024, help="queries")
    parser.add_argument("--keys", type=int, help="keys and values (default: as many as queries)")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--value-dim", type=int, help="width of values (default: that of keys)")
    parser.add_argument("--dtype", choices=TYPES, default="f32")
    parser.add_argument("--causal", action="store_true", help="the last query is at the position of the last key")
    parser.add_argument("--window", type=int, help="keys before a query's own position (and, without --causal, after it)")
    parser.add_argument("--backward", action="store_true", help="forward and backward")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    arguments.kv_heads = arguments.kv_heads or arguments.heads
    arguments.keys = arguments.keys or arguments.length
    arguments.value_dim = arguments.value_dim or arguments.dim
    return arguments


def band(a, rows):
    """Returns the mask of the keys that the queries `rows` see: (rows, keys), or None if all."""
    if not a.causal and a.window is None:
        return None
    distance = torch.arange(a.keys) - (rows + a.keys - a.length).unsqueeze(1)
    seen = distance <= 0 if a.causal else torch.ones_like(distance, dtype=torch.bool)
    return seen if a.window is None else seen & (distance.abs() <= a.window)


def mask_options(a):
    """Returns PyTorch's fastest arguments for causality and window."""
    if a.window is not None:
        return {"attn_mask": band(a, torch.arange(a.length))}
    if not a.causal or a.length == 1:
        return {}
    return {"is_causal": True} if a.length == a.keys else {"attn_mask": causal_lower_right(a.length, a.keys)}


def relative(pairs):
    """Returns √Σ(actual − expected)² / √Σ expected², and the largest difference."""
    found, expected = (torch.cat([x.double().flatten() for x in side]) for side in zip(*pairs))
    difference = found - expected
    return (difference.norm() / expected.norm()).item(), difference.abs().max().item()


def errors(a, query, key, value, output, d_output):
    """Returns the errors of sampled rows, and of the gradients of one key head, in double precision."""
    generator = torch.Generator().manual_seed(2)
    group = a.heads // a.kv_heads
    scale = 1 / math.sqrt(a.dim)
    pairs = []
    for _ in range(min(4, a.batch * a.heads)):
        b, h = (int(torch.randint(n, (), generator=generator)) for n in (a.batch, a.heads))
        rows = torch.randperm(a.length, generator=generator)[:64]
        weights = probabilities(query[b, h, rows], key[b, h // group], scale, band(a, rows))
        pairs.append((output[b, h, rows], weights @ value[b, h // group].double()))
    if d_output is None:
        return [relative(pairs)]
    kv_head = h // group
    k, v = key[b, kv_head].double(), value[b, kv_head].double()
    sample = torch.randperm(a.keys, generator=generator)[:64]
    d_queries = []
    d_key = torch.zeros(len(sample), a.dim).double()
    d_value = torch.zeros(len(sample), a.value_dim).double()
    for h in range(kv_head * group, (kv_head + 1) * group):
        for rows in torch.arange(a.length).split(max(1, 2**22 // a.keys)):
            q, d = query[b, h, rows].double(), d_output[b, h, rows].double()
            weights = probabilities(q, k, scale, band(a, rows))
            # dS = P ∘ (dO·Vᵀ − rowsum(dO ∘ O))
            d_scores = weights * (d @ v.T - (d * (weights @ v)).sum(1, keepdim=True))
            d_queries.append((query.grad[b, h, rows], scale * d_scores @ k))
            d_key += scale * d_scores[:, sample].T @ q
            d_value += weights[:, sample].T @ d
    d_keys, d_values = (key.grad[b, kv_head, sample], d_key), (value.grad[b, kv_head, sample], d_value)
    return [relative(pairs), relative(d_queries), relative([d_keys]), relative([d_values])]


def probabilities(query, key, scale, seen):
    scores = query.double() @ key.double().T * scale
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    return torch.softmax(scores, 1)


def resident(field):
    """Returns a line of /proc/self/status in bytes, or 0 if it does not exist."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return 0


def wants_more(runs, milliseconds):
    """Returns True until there are as many runs as in `chumoku bench`."""
    if runs < 5:
        return runs == 0 or milliseconds < (60000 if runs < 3 else 20000)
    return runs < 100 and milliseconds < 1000


def main():
    a = parse_arguments()
    torch.set_num_threads(a.threads)
    generator = torch.Generator().manual_seed(1)
    options = {"dtype": TYPES[a.dtype]}
    normal = lambda *shape: torch.randn(shape, generator=generator).to(**options)
    query = normal(a.batch, a.heads, a.length, a.dim)
    key = normal(a.batch, a.kv_heads, a.keys, a.dim)
    value = normal(a.batch, a.kv_heads, a.keys, a.value_dim)
    d_output = normal(a.batch, a.heads, a.length, a.value_dim) if a.backward else None
    for x in (query, key, value):
        x.requires_grad_(a.backward)
    call = {**mask_options(a), "enable_gqa": a.kv_heads != a.heads}

    def run():
        if not a.backward:
            with torch.no_grad():
                return F.scaled_dot_product_attention(query, key, value, **call)
        query.grad = key.grad = value.grad = None
        output = F.scaled_dot_product_attention(query, key, value, **call)
        output.backward(d_output)
        return output

    before = resident("VmRSS:")
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    except OSError:
        pass
    output = run()
    peak = max(0, resident("VmHWM:") - before)
    with torch.no_grad():
        found = errors(a, query, key, value, output, d_output)
    error = max(relative for relative, _ in found)
    assert error < ALLOWED[a.dtype], f"the answer is off by {error}"
    del output

    milliseconds = []
    run()
    while wants_more(len(milliseconds), sum(milliseconds)):
        start = time.perf_counter()
        run()
        milliseconds.append((time.perf_counter() - start) * 1e3)
    median = statistics.median(milliseconds)
    operations = 4 * a.batch * a.heads * a.length * a.keys * (a.dim + a.value_dim) / 2
    operations *= (0.5 if a.causal else 1) * (3.5 if a.backward else 1)
    report = {
        "median_ms": round(median, 4),
        "min_ms": round(min(milliseconds), 4),
        "max_ms": round(max(milliseconds), 4),
        "runs": len(milliseconds),
        "gflops": round(operations / median / 1e6, 2),
        "tokens_per_second": round(a.batch * a.length / median * 1e3, 1),
        "peak_bytes": peak,
        "threads": torch.get_num_threads(),
        "error": error,
        "max_error": max(largest for _, largest in found),
        "peer": "torch",
        "version": torch.__version__,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
