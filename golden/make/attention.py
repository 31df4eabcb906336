"""Makes the golden file of attention's errors in low precision: how far PyTorch's are from float64. See ../README.md.

    python golden/make/attention.py [FOLDER]      writes FOLDER/attention/errors.safetensors; FOLDER is golden/ if left out

Inputs are not stored: they come from a seed by SplitMix64, as the tests draw them again. The norms of the float64 results
are, so that a test can tell that it computes the same thing.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from recorder import to_bytes

# batch, heads, key heads, queries, keys, dim, value dim, causal
CASES = {
    "short": (2, 4, 4, 64, 64, 64, 64, 0),
    "plain": (1, 2, 2, 512, 512, 64, 64, 0),
    "causal": (1, 2, 2, 512, 512, 64, 64, 1),
    "wide": (2, 2, 2, 100, 100, 96, 96, 0),
    "cross": (1, 2, 2, 70, 300, 32, 32, 0),
    "grouped": (1, 4, 2, 128, 128, 64, 64, 1),
    "many_queries": (1, 1, 1, 4096, 128, 64, 64, 0),
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class SplitMix:
    """The tests' generator: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014)."""

    def __init__(self, seed):
        self.state = np.uint64(seed)

    def numbers(self, *shape):
        """Numbers in -2..2, each exactly an f32."""
        count = int(np.prod(shape))
        with np.errstate(over="ignore"):
            z = self.state + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            self.state = z[-1]
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
        unit = (z >> np.uint64(11)).astype(np.float64) / 2.0**52 - 1.0
        return torch.tensor(2.0 * unit.astype(np.float32)).reshape(shape)


def attention(inputs, causal):
    """Output and the gradients of query, key and value, in float64."""
    query, key, value, d_output = inputs
    leaves = [x.detach().clone().requires_grad_() for x in (query, key, value)]
    grouped = query.shape[1] != key.shape[1]
    output = F.scaled_dot_product_attention(*leaves, is_causal=bool(causal), enable_gqa=grouped)
    output.backward(d_output)
    return [x.detach().double() for x in (output, *(leaf.grad for leaf in leaves))]


def record(seed, sizes):
    batch, heads, key_heads, queries, keys, dim, value_dim, causal = sizes
    random = SplitMix(seed)
    shapes = [(heads, queries, dim), (key_heads, keys, dim), (key_heads, keys, value_dim), (heads, queries, value_dim)]
    inputs = [random.numbers(batch, *shape) for shape in shapes]
    tensors = {"sizes": np.array([seed, *sizes], np.int64)}
    for name, dtype in DTYPES.items():
        rounded = [x.to(dtype) for x in inputs]
        truth = attention([x.double() for x in rounded], causal)
        found = attention(rounded, causal)
        norms = [float(x.norm()) for x in truth]
        errors = [float((x - y).norm()) for x, y in zip(found, truth)]
        tensors[f"{name}.norms"] = np.array(norms)
        tensors[f"{name}.errors"] = np.array([error / norm for error, norm in zip(errors, norms)])
    return tensors


def main():
    torch.set_num_threads(1)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent) / "attention"
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for seed, (name, sizes) in enumerate(CASES.items()):
        case = record(seed, sizes)
        tensors.update({f"{name}.{key}": value for key, value in case.items()})
        for dtype in DTYPES:
            print(f"{name:12} {dtype:5}", *(f"{error:.1e}" for error in case[f"{dtype}.errors"]))
    attributes = {"torch": torch.__version__.split("+")[0], "cases": " ".join(CASES)}
    (folder / "errors.safetensors").write_bytes(to_bytes(tensors, attributes))


if __name__ == "__main__":
    main()
