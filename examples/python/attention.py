"""Attention of NumPy arrays, with statistics of its weights. Needs NumPy."""

import chumoku
import numpy as np

random = np.random.default_rng(0)
# One sequence, four heads of width 16; 1,000 queries, and two heads of keys and values that they share.
query = random.standard_normal((1, 4, 1000, 16)).astype(np.float32)
key, value = (random.standard_normal((1, 2, 1000, 16)).astype(np.float32) for _ in range(2))

result = chumoku.attention(
    query,
    key,
    value,
    causal="bottom_right",
    window=(127, None),  # each query sees itself and 127 keys before it
    statistics=("entropy", "mass", "top:3"),
)
print("output", result.output.shape, result.output.dtype)
print("entropy of the last query's weights, by head:", result.statistics.entropy[0, :, -1].round(2))
print("the keys with the largest weights in the first head:", result.statistics.top_keys[0, 0, -1])
print("weight of the first key, by head:", result.statistics.mass[0, :, 0].round(2))
