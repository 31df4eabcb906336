"""Memory layouts: which are read in place, and which are copied."""

import tracemalloc

import pytest

np = pytest.importorskip("numpy")

import chumoku  # noqa: E402

SHAPE = (2, 3, 5, 8)
IN_PLACE = {
    "in order": lambda x: x,
    "tokens before heads": lambda x: x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3),
    "tokens first": lambda x: x.transpose(2, 0, 1, 3).copy().transpose(1, 2, 0, 3),
    "wider rows": lambda x: np.concatenate([x, x], -1)[..., : x.shape[-1]],
    "from the second number on": lambda x: np.concatenate([x[..., :1], x], -1)[..., 1:],
    "every other row": lambda x: np.repeat(x, 2, 2)[:, :, ::2],
    "for all texts": lambda x: np.broadcast_to(x[:1], x.shape),
    "for all heads": lambda x: np.broadcast_to(x[:, :1], x.shape),
}
COPIED = {
    "width first": lambda x: x.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2),
    "every other number": lambda x: np.repeat(x, 2, 3)[..., ::2],
    "backwards": lambda x: x[:, :, ::-1].copy()[:, :, ::-1],
    "numbers backwards": lambda x: x[..., ::-1].copy()[..., ::-1],
    "other bytes": lambda x: x.astype(x.dtype.newbyteorder()),
    "between places": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape),
}


def numbers(shape=SHAPE):
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(np.float32) for _ in range(3)]


@pytest.mark.parametrize("name", [*IN_PLACE, *COPIED])
def test_arrays(name):
    q, k, v = ((IN_PLACE | COPIED)[name](x) for x in numbers())
    expected = chumoku.attention(*(np.ascontiguousarray(x, np.float32) for x in (q, k, v)))
    np.testing.assert_array_equal(chumoku.attention(q, k, v), expected)


@pytest.mark.parametrize("name", IN_PLACE)
def test_supported_layouts_are_read_in_place(name):
    q, k, v = (IN_PLACE[name](x) for x in numbers((2, 3, 600, 64)))
    tracemalloc.start()
    chumoku.attention(q, k, v)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Memory for the result and the log-sum-exp; a copy of one input would need as much again.
    assert used < 1.5 * 4 * 2 * 3 * 600 * 64


OFFSETS = [0, 1, 4, 10]
PACKED = {
    "one array": lambda parts: [x for x in np.stack(parts, 1).transpose(1, 0, 2, 3)],
    "heads first": lambda parts: [x.transpose(1, 0, 2).copy().transpose(1, 0, 2) for x in parts],
    "heads apart": lambda parts: [np.repeat(x, 2, 1)[:, ::2] for x in parts],
    "width first": lambda parts: [np.asfortranarray(x) for x in parts],
    "backwards": lambda parts: [x[::-1].copy()[::-1] for x in parts],
    "each its own": lambda parts: [parts[0], np.repeat(parts[1], 2, 1)[:, ::2], parts[2].transpose(1, 0, 2).copy().transpose(1, 0, 2)],
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_sequences(name):
    parts = numbers((10, 3, 8))
    call = lambda *parts: chumoku.attention(*parts, query_offsets=OFFSETS, key_offsets=OFFSETS, causal="top_left")
    expected = call(*parts)
    for start, end in zip(OFFSETS, OFFSETS[1:]):
        alone = chumoku.attention(*(x[start:end].transpose(1, 0, 2)[None] for x in parts), causal="top_left")
        np.testing.assert_allclose(expected[start:end], alone[0].transpose(1, 0, 2), atol=2e-6)
    np.testing.assert_array_equal(call(*PACKED[name](parts)), expected)
    torch = pytest.importorskip("torch")
    laid = [torch.from_numpy(x if name != "backwards" else np.ascontiguousarray(x)) for x in PACKED[name](parts)]
    assert torch.equal(call(*laid), torch.from_numpy(expected))
    gradients = []
    for tensors in (laid, [x.contiguous() for x in laid]):
        tensors = [x.detach().requires_grad_() for x in tensors]
        call(*tensors).square().sum().backward()
        gradients.append([x.grad for x in tensors])
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b, atol=0, rtol=0)


def test_a_single_token():
    parts = numbers((1, 3, 8))
    found = chumoku.attention(*parts, query_offsets=[0, 1], key_offsets=[0, 1])
    np.testing.assert_allclose(found, parts[2], atol=1e-6)
