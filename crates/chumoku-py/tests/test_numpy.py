"""`chumoku.attention` on arrays, compared with the formula in double precision."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import chumoku


def numbers(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def plain(q, k, v, scale=None, mask=None, softcap=None, sinks=None, causal=None, window=None, alibi=None, lengths=None):
    """The reference formula in double precision: output, log-sum-exp and weights."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    n, s = q.shape[2], k.shape[2]
    scores = np.einsum("bhld,bhsd->bhls", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    lengths = np.full(q.shape[0], s) if lengths is None else np.array(lengths)
    i, j = np.arange(n)[:, None], np.arange(s)[None]
    for b, length in enumerate(lengths):
        offset = {"top_left": 0, "bottom_right": length - n, None: length - n}.get(causal, causal)
        seen = j < length
        if causal is not None:
            seen = seen & (j <= i + offset)
        left, right = window or (None, None)
        if left is not None:
            seen = seen & (j >= i + offset - left)
        if right is not None:
            seen = seen & (j <= i + offset + right)
        if alibi is not None:
            scores[b] -= np.array(alibi)[:, None, None] * np.abs(i + offset - j)
        scores[b] = np.where(seen, scores[b], -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if sinks is not None:
        sink = np.broadcast_to(sinks[None, :, None, None], scores.shape[:3] + (1,))
        scores = np.concatenate([scores, sink], -1)
    largest = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), -1e300)
    power = np.exp(scores - largest)
    total = power.sum(-1, keepdims=True)
    weights = power / np.where(total == 0, 1, total)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + largest)[..., 0]
    weights = weights[..., :s]
    return weights @ v, lse, weights


CASES = {
    "plain": {},
    "scale": {"scale": 0.3},
    "negative scale": {"scale": -0.4},
    "causal": {"causal": "top_left"},
    "bottom right": {"causal": "bottom_right"},
    "a diagonal": {"causal": 3},
    "window": {"causal": "bottom_right", "window": (5, None)},
    "both sides": {"window": (4, 2)},
    "softcap": {"softcap": 2.0},
    "alibi": {"alibi": [0.5, 0.25, 0.1, 0.02]},
    "sinks": {"sinks": numbers(4, seed=9)},
    "lengths": {"key_lengths": [7, 0]},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", [(2, 4, 2, 13, 19, 8, 8), (2, 4, 4, 1, 40, 16, 5), (2, 4, 1, 70, 33, 3, 64)])
def test_all_options(name, sizes):
    b, h, hk, n, s, d, dv = sizes
    q, k, v = numbers(b, h, n, d, seed=1), numbers(b, hk, s, d, seed=2), numbers(b, hk, s, dv, seed=3)
    options = CASES[name]
    found = chumoku.attention(q, k, v, **options, return_lse=True, return_weights=True)
    renamed = {"lengths" if key == "key_lengths" else key: x for key, x in options.items()}
    output, lse, weights = plain(q, k, v, **renamed)
    np.testing.assert_allclose(found.output, output, atol=2e-6, rtol=2e-6)
    np.testing.assert_allclose(found.log_sum_exp, lse, atol=4e-6, rtol=2e-6)
    np.testing.assert_allclose(found.weights, weights, atol=1e-6)
    assert found.output.dtype == np.float32 and found.output.shape == (b, h, n, dv)
    # Without additional results, only the output is returned, unchanged.
    np.testing.assert_array_equal(chumoku.attention(q, k, v, **options), found.output)


@pytest.mark.parametrize("shape", [(2, 4, 13, 19), (1, 4, 13, 19), (2, 1, 1, 19), (13, 19), (19,), (2, 1, 13, 1)])
@pytest.mark.parametrize("kind", ["bool", "float32", "float64"])
def test_masks_of_every_shape(shape, kind):
    q, k, v = numbers(2, 4, 13, 8, seed=1), numbers(2, 4, 19, 8, seed=2), numbers(2, 4, 19, 8, seed=3)
    mask = numbers(*shape, seed=4)
    mask = mask > -0.5 if kind == "bool" else mask.astype(kind)
    np.testing.assert_allclose(chumoku.attention(q, k, v, mask=mask), plain(q, k, v, mask=mask)[0], atol=2e-6)
    # Broadcast without memory, and transposed.
    wide = np.broadcast_to(mask, (2, 4, 13, 19))
    np.testing.assert_allclose(chumoku.attention(q, k, v, mask=wide), plain(q, k, v, mask=mask)[0], atol=2e-6)


def test_views_of_any_strides():
    base = numbers(2, 30, 4, 3, 8, seed=1)  # (batch, length, heads, three, width)
    q, k, v = (base[:, :, :, i].transpose(0, 2, 1, 3) for i in range(3))
    expected = plain(q, k, v)[0]
    np.testing.assert_allclose(chumoku.attention(q, k, v), expected, atol=2e-6)
    # Reversed, every second element, and column order: copied if they cannot be read in place.
    np.testing.assert_allclose(chumoku.attention(q[:, :, ::-1], k, v), expected[:, :, ::-1], atol=2e-6)
    np.testing.assert_allclose(chumoku.attention(q[:, :, ::2], k, v), expected[:, :, ::2], atol=2e-6)
    flipped = np.asfortranarray(q)
    np.testing.assert_allclose(chumoku.attention(flipped, k, v), expected, atol=2e-6)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), ("float16", 2e-3)])
def test_other_element_types(dtype, tolerance):
    q, k, v = (numbers(1, 2, 9, 8, seed=i, dtype=dtype) for i in range(3))
    found = chumoku.attention(q, k, v)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, plain(q, k, v)[0], atol=tolerance)


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    q, k, v = (numbers(1, 2, 9, 8, seed=i).astype(ml_dtypes.bfloat16) for i in range(3))
    found = chumoku.attention(q, k, v)
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(found.astype(np.float32), plain(q, k, v)[0], atol=2e-2)


def test_broadcast_masks_are_not_expanded():
    from chumoku._numpy import _mask

    for dtype in ("f4", "f8", "f2"):
        wide = np.broadcast_to(numbers(13, 1, dtype=dtype), (2, 4, 13, 19))
        kept, memory = _mask(wide, np.float32, np)
        assert memory[3][0] == memory[3][1] == memory[3][3] == 0 and kept.dtype == np.float32
    q, k = numbers(2, 4, 13, 8, seed=1), numbers(2, 4, 19, 8, seed=2)
    np.testing.assert_allclose(chumoku.attention(q, k, k, mask=wide), plain(q, k, k, mask=wide)[0], atol=2e-6)


def test_empty_arrays():
    q, k, v = numbers(2, 3, 4, 8), numbers(2, 3, 0, 8), numbers(2, 3, 0, 5)
    assert not chumoku.attention(q, k, v).any()
    assert chumoku.attention(q[:, :, :0], numbers(2, 3, 4, 8), numbers(2, 3, 4, 5)).shape == (2, 3, 0, 5)
    assert chumoku.attention(q[:0], q[:0], q[:0]).shape == (0, 3, 4, 8)


def test_packed_sequences():
    q, k, v = numbers(12, 4, 8, seed=1), numbers(20, 2, 8, seed=2), numbers(20, 2, 6, seed=3)
    queries, keys = [0, 5, 5, 12], [0, 9, 11, 20]
    found = chumoku.attention(q, k, v, query_offsets=queries, key_offsets=np.array(keys), causal="bottom_right", return_lse=True)
    for s in range(3):
        qs, ks, vs = (
            x[a[s] : a[s + 1]].transpose(1, 0, 2)[None] for x, a in ((q, queries), (k, keys), (v, keys))
        )
        output, lse, _ = plain(qs, ks, vs, causal="bottom_right")
        np.testing.assert_allclose(found.output[queries[s] : queries[s + 1]], output[0].transpose(1, 0, 2), atol=2e-6)
        np.testing.assert_allclose(found.log_sum_exp[:, queries[s] : queries[s + 1]], lse[0], atol=4e-6)


def test_statistics_match_the_weights():
    q, k, v = numbers(2, 4, 13, 8, seed=1), numbers(2, 2, 19, 8, seed=2), numbers(2, 2, 19, 8, seed=3)
    found = chumoku.attention(q, k, v, causal=2, statistics=("mass", "entropy", "top:3"))
    weights = plain(q, k, v, causal=2)[2]
    s = found.statistics
    np.testing.assert_allclose(s.mass, weights.sum(2), atol=2e-5)
    entropy = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1)
    np.testing.assert_allclose(s.entropy, entropy, atol=1e-5)
    order = np.argsort(-weights, -1, kind="stable")[..., :3]
    np.testing.assert_array_equal(s.top_keys, order)
    np.testing.assert_allclose(s.top_weights, np.take_along_axis(weights, order, -1), atol=1e-6)
    # A query may see fewer keys than requested.
    few = chumoku.attention(q, k, v, causal="top_left", statistics=["top:3"]).statistics
    assert (few.top_keys[:, :, 0] == [0, -1, -1]).all() and few.mass is None


def test_dropout_follows_the_seed():
    q, k, v = numbers(1, 2, 64, 8, seed=1), numbers(1, 2, 64, 8, seed=2), np.ones((1, 2, 64, 1), np.float32)
    once = chumoku.attention(q, k, v, dropout=0.5, seed=1)
    np.testing.assert_array_equal(once, chumoku.attention(q, k, v, dropout=0.5, seed=1))
    assert (once != chumoku.attention(q, k, v, dropout=0.5, seed=2)).mean() > 0.9
    assert abs(once.mean() - 1) < 0.1 and once.std() > 0.05
    np.random.seed(3)
    first = chumoku.attention(q, k, v, dropout=0.5)
    np.random.seed(3)
    np.testing.assert_array_equal(first, chumoku.attention(q, k, v, dropout=0.5))


def test_results_do_not_depend_on_the_number_of_threads():
    q, k, v = (numbers(2, 4, 300, 32, seed=i) for i in range(3))
    before = chumoku.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3, 7):
            chumoku.set_num_threads(threads)
            assert chumoku.get_num_threads() == threads
            found.append(chumoku.attention(q, k, v).tobytes())
        assert len(set(found)) == 1
    finally:
        chumoku.set_num_threads(before)


def test_concurrent_python_threads():
    q, k, v = (numbers(2, 4, 200, 32, seed=i) for i in range(3))
    expected, found = chumoku.attention(q, k, v).tobytes(), []
    work = lambda: found.extend(chumoku.attention(q, k, v).tobytes() for _ in range(20))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80 and set(found) == {expected}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_attention_works_after_a_fork():
    code = """
import os, sys, numpy as np, chumoku
x = np.random.default_rng(0).standard_normal((2, 4, 200, 32)).astype(np.float32)
expected = chumoku.attention(x, x, x, return_weights=True)
for _ in range(100):
    child = os.fork()
    if child == 0:
        found = chumoku.attention(x, x, x, return_weights=True)
        same = all((a == b).all() for a, b in zip(found[:3], expected[:3]) if a is not None)
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
assert (chumoku.attention(x, x, x) == expected.output).all()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_scaled_dot_product_attention_of_every_rank():
    for shape in [(9, 8), (3, 9, 8), (2, 3, 9, 8), (2, 2, 3, 9, 8)]:
        q, k, v = numbers(*shape, seed=1), numbers(*shape, seed=2), numbers(*shape[:-1], 5, seed=3)
        four = [x.reshape(-1, 1, *x.shape[-2:]) for x in (q, k, v)]
        found = chumoku.scaled_dot_product_attention(q, k, v)
        np.testing.assert_allclose(found, plain(*four)[0].reshape(*shape[:-1], 5), atol=2e-6)
        mask = numbers(9, 9, seed=4) > 0
        found = chumoku.scaled_dot_product_attention(q, k, v, mask)
        np.testing.assert_allclose(found, plain(*four, mask=mask)[0].reshape(*shape[:-1], 5), atol=2e-6)
    # Leading axes broadcast.
    q, k, v = numbers(2, 3, 9, 8, seed=1), numbers(1, 3, 9, 8, seed=2), numbers(2, 1, 9, 8, seed=3)
    wide = [np.broadcast_to(x, (2, 3, 9, 8)) for x in (q, k, v)]
    np.testing.assert_allclose(chumoku.scaled_dot_product_attention(q, k, v), plain(*wide)[0], atol=2e-6)
    np.testing.assert_allclose(chumoku.scaled_dot_product_attention(k, q, v), plain(wide[1], wide[0], wide[2])[0], atol=2e-6)
    grouped = chumoku.scaled_dot_product_attention(
        numbers(2, 4, 9, 8, seed=1), numbers(2, 2, 9, 8, seed=2), numbers(2, 2, 9, 8, seed=3), enable_gqa=True, is_causal=True
    )
    expected = plain(numbers(2, 4, 9, 8, seed=1), numbers(2, 2, 9, 8, seed=2), numbers(2, 2, 9, 8, seed=3), causal="top_left")
    np.testing.assert_allclose(grouped, expected[0], atol=2e-6)


class Foreign:
    """An array of another library that supports DLPack."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **keywords):
        return self.x.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_dlpack_arrays():
    q, k, v = (numbers(1, 2, 9, 8, seed=i) for i in range(3))
    found = chumoku.attention(Foreign(q), Foreign(k), Foreign(v))
    np.testing.assert_array_equal(np.asarray(found), chumoku.attention(q, k, v))


X = numbers(2, 4, 5, 8)
WRONG = [
    (lambda: chumoku.attention(X, X[:, :3], X[:, :3]), ValueError, "divisor of the 4 query heads, got 3"),
    (lambda: chumoku.attention(X, X[..., :4], X), ValueError, "expected width 8"),
    (lambda: chumoku.attention(X[0], X[0], X[0]), ValueError, r"\(batch, heads, length, width\), got \(4, 5, 8\)"),
    (lambda: chumoku.attention(X, X, X.astype("f8")), TypeError, "value: expected float32"),
    (lambda: chumoku.attention(X.astype("i4"), X, X), TypeError, "query: expected an array of float32"),
    (lambda: chumoku.attention([1.0], X, X), TypeError, "query: expected an array or a tensor, got list"),
    (lambda: chumoku.attention(X, X, X, causal=True), TypeError, "top_left"),
    (lambda: chumoku.attention(X, X, X, causal="left"), ValueError, "top_left"),
    (lambda: chumoku.attention(X, X, X, dropout=1.0), ValueError, "dropout"),
    (lambda: chumoku.attention(X, X, X, scale=float("nan")), ValueError, "scale: expected a finite number"),
    (lambda: chumoku.attention(X, X, X, softcap=-1.0), ValueError, "softcap"),
    (lambda: chumoku.attention(X, X, X, alibi=[1.0]), ValueError, "alibi"),
    (lambda: chumoku.attention(X, X, X, mask=X > 0), ValueError, "mask"),
    (lambda: chumoku.attention(X, X, X, mask=np.zeros((5, 5), "i8")), TypeError, "mask"),
    (lambda: chumoku.attention(X, X, X, key_lengths=[5, 6]), ValueError, "at most 5 keys in sequence 1, got 6"),
    (lambda: chumoku.attention(X, X, X, key_lengths=[5, -1]), ValueError, "key_lengths"),
    (lambda: chumoku.attention(X, X, X, precision="best"), ValueError, "precision"),
    (lambda: chumoku.attention(X, X, X, statistics=["max"]), ValueError, "statistics"),
    (lambda: chumoku.attention(X[0], X[0], X[0], query_offsets=[0, 4], key_offsets=[0, 3]), ValueError, "end at its 4 tokens"),
    (lambda: chumoku.attention(X[0], X[0], X[0], query_offsets=[0, 4]), ValueError, "or neither"),
    (lambda: chumoku.scaled_dot_product_attention(X, X, X, X[0, 0, :, :5] > 0, is_causal=True), ValueError, "not both"),
    (lambda: chumoku.scaled_dot_product_attention(X, X[:, :2], X[:, :2]), ValueError, "enable_gqa"),
    (lambda: chumoku.set_num_threads(0), ValueError, "from 1 to 1024"),
    (lambda: chumoku.set_num_threads(-1), ValueError, "^set_num_threads: expected a whole number"),
    (lambda: chumoku.attention(X, X, X, causal=1.5), ValueError, "^causal: expected .* or a whole number, got 1.5"),
    (lambda: chumoku.attention(X, X, X, causal=10**30), ValueError, "^causal: expected .* or a whole number"),
    (lambda: chumoku.attention(X, X, X, window=(-1, 2)), ValueError, "^window: expected a whole number from 0 on, got -1"),
    (lambda: chumoku.attention(X, X, X, window=(1,)), ValueError, "^window: expected two numbers of keys"),
    (lambda: chumoku.attention(X, X, X, window=3), ValueError, "^window: expected two numbers of keys"),
    (lambda: chumoku.attention(X, X, X, dropout=0.5, seed=-1), ValueError, "^seed: expected a whole number from 0 on, got -1"),
    (lambda: chumoku.attention(X, X, X, key_lengths=5), TypeError, "^key_lengths: expected a list of whole numbers"),
    (lambda: chumoku.attention(X, X, X, statistics=["top:3", "top:5"]), ValueError, '^statistics: expected one "top:" entry'),
    (lambda: chumoku.attention(X, X, X, statistics=["top:3", "max"]), ValueError, '^statistics: expected "mass"'),
    (lambda: chumoku.attention(X, np.ma.array(X), X), TypeError, "^key: expected an array, got a masked array"),
    (lambda: chumoku.attention(X, X, X, mask=np.ma.array(X[0, 0] > 0)), TypeError, "^mask: .* masked array"),
    (lambda: chumoku.attention(X, X, X, sinks=np.ma.array(X[0, :, 0, 0])), TypeError, "^sinks: .* masked array"),
    (lambda: chumoku.attention(X, X, X, alibi=np.ma.array(X[0, :, 0, 0])), TypeError, "^alibi: .* masked array"),
    (lambda: chumoku.attention(X, X, X, key_lengths=np.ma.array([5, 5])), TypeError, "^key_lengths: .* masked array"),
    (lambda: chumoku.scaled_dot_product_attention(X, X, np.ma.array(X)), TypeError, "^value: .* masked array"),
]


@pytest.mark.parametrize("i", range(len(WRONG)))
def test_errors_name_the_problem(i):
    call, kind, message = WRONG[i]
    with pytest.raises(kind, match=message):
        call()


def test_memory_does_not_leak():
    import resource

    q = numbers(1, 2, 16, 8)
    for _ in range(3000):
        chumoku.attention(q, q, q, return_lse=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10_000):
        chumoku.attention(q, q, q, return_lse=True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1024, "kilobytes"


def test_importing_chumoku_imports_no_library():
    code = "import sys, chumoku; assert not {'torch', 'numpy', 'transformers', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("leading, n, s", [((2, 3, 4), 0, 5), ((0, 3, 4), 2, 5), ((2, 3, 4), 2, 0), ((2, 0, 4), 2, 5)])
def test_five_axes_with_an_empty_one(leading, n, s):
    q, k, v = numbers(*leading, n, 8), numbers(*leading, s, 8), numbers(*leading, s, 8)
    for mask in (None, np.ones((n, s), bool)):
        found = chumoku.scaled_dot_product_attention(q, k, v, mask)
        assert found.shape == (*leading, n, 8) and not found.any()


def test_one_statistic_as_a_string():
    found = chumoku.attention(X, X, X, statistics="mass").statistics
    np.testing.assert_array_equal(found.mass, chumoku.attention(X, X, X, statistics=["mass"]).statistics.mass)
    assert found.entropy is None
