"""Tensors, compared with PyTorch's function in double precision. Tests both entry points: our function, and PyTorch's
function on our kernels."""

import itertools

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import chumoku  # noqa: E402
import chumoku.torch  # noqa: E402

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float64: 1e-12}
OWN = F.scaled_dot_product_attention


def numbers(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.fixture(params=["ours", "activated"])
def door(request):
    """The function under test, and whether it is PyTorch's own on our kernels."""
    if request.param == "ours":
        yield chumoku.scaled_dot_product_attention
        return
    chumoku.torch.activate()
    try:
        yield OWN
    finally:
        chumoku.torch.deactivate()


def truth(q, k, v, mask=None, **keywords):
    """PyTorch's plain path in double precision, with gradients of the inputs that require them."""
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    mask = mask if mask is None or mask.dtype == torch.bool else mask.double()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        y = OWN(*wide, mask, **keywords)
    y.backward(torch.cos(y.detach()))
    return y.detach(), [x.grad for x in wide]


def check(door, q, k, v, mask=None, train=True, **keywords):
    dtype = q.dtype
    expected, gradients = truth(q, k, v, mask, **keywords)
    arguments = [x.detach().requires_grad_(train) for x in (q, k, v)]
    y = door(*arguments, mask, **keywords)
    assert y.dtype == dtype and y.shape == expected.shape
    limit = TOLERANCE[dtype]
    torch.testing.assert_close(y.double(), expected, atol=limit, rtol=limit)
    if train:
        y.backward(torch.cos(expected).to(dtype))
        for x, gradient in zip(arguments, gradients):
            assert x.grad.shape == x.shape
            torch.testing.assert_close(x.grad.double(), gradient, atol=4 * limit, rtol=4 * limit)


DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("sizes", [(2, 3, 17, 17, 8), (1, 2, 64, 100, 32), (2, 2, 1, 40, 16), (3, 1, 130, 70, 64), (1, 1, 5, 3, 1)])
def test_shapes(door, dtype, causal, train, sizes):
    b, h, n, s, d = sizes
    q, k, v = numbers(b, h, n, d, seed=1, dtype=dtype), numbers(b, h, s, d, seed=2, dtype=dtype), numbers(b, h, s, d, seed=3, dtype=dtype)
    check(door, q, k, v, train=train, is_causal=causal)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["bool", "numbers"])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("axes", list(itertools.product([0, 1], [0, 1], [0, 1])) + [2])
def test_masks(door, dtype, kind, train, axes):
    """All combinations of axes along which a mask may broadcast, and a mask with two axes."""
    b, h, n, s = 2, 3, 20, 33
    shape = (n, s) if axes == 2 else tuple(size if axis else 1 for size, axis in zip((b, h, n), axes)) + (s,)
    mask = numbers(*shape, seed=5, dtype=dtype)
    mask = mask > -0.3 if kind == "bool" else mask
    q, k, v = numbers(b, h, n, 16, seed=1, dtype=dtype), numbers(b, h, s, 16, seed=2, dtype=dtype), numbers(b, h, s, 16, seed=3, dtype=dtype)
    check(door, q, k, v, mask, train=train)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("train", [False, True])
def test_fully_masked_blocks(door, dtype, train):
    """Whole rows and whole blocks of keys are masked, with numbers and with booleans."""
    q, k, v = (numbers(1, 2, 300, 16, seed=i, dtype=dtype) for i in range(3))
    mask = torch.ones(300, 300, dtype=torch.bool)
    mask[:, :128] = False
    mask[7] = False
    mask[200:, 150:] = False
    for given in (mask, torch.zeros(300, 300, dtype=dtype).masked_fill(~mask, -torch.inf)):
        arguments = [x.detach().requires_grad_(train) for x in (q, k, v)]
        y = door(*arguments, given)
        assert torch.isfinite(y).all() and (y[:, :, 7] == 0).all()
        seen = mask.any(-1)
        expected = truth(q[:, :, seen], k, v, mask[seen])
        torch.testing.assert_close(y[:, :, seen].double(), expected[0], atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
        if train:
            y.sum().backward()
            assert all(torch.isfinite(x.grad).all() for x in arguments)


@pytest.mark.parametrize("scale", [0.1, 1.0, -0.5, 0.0])
def test_scales(door, scale):
    check(door, *(numbers(2, 2, 30, 8, seed=i) for i in range(3)), scale=scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [(4, 2), (4, 1), (6, 3), (4, 4)])
def test_grouped_heads(door, dtype, heads):
    h, hk = heads
    q, k, v = numbers(2, h, 20, 8, seed=1, dtype=dtype), numbers(2, hk, 25, 8, seed=2, dtype=dtype), numbers(2, hk, 25, 8, seed=3, dtype=dtype)
    check(door, q, k, v, enable_gqa=True)
    check(door, q, k, v, enable_gqa=True, is_causal=True)


def strided(shape, how, seed):
    b, h, n, d = shape
    if how == "heads last":
        return numbers(b, n, h, d, seed=seed).transpose(1, 2)
    if how == "side by side":
        return numbers(b, n, 3, h, d, seed=seed)[:, :, 1].transpose(1, 2)
    if how == "columns":
        return numbers(b, h, d, n, seed=seed).transpose(2, 3)
    if how == "every second":
        return numbers(b, h, 2 * n, d, seed=seed)[:, :, ::2]
    if how == "expanded":
        return numbers(1, 1, n, d, seed=seed).expand(b, h, n, d)
    return numbers(b, h, n, d, seed=seed)


@pytest.mark.parametrize("how", ["heads last", "side by side", "columns", "every second", "expanded"])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("train", [False, True])
def test_strides(door, how, which, train):
    shape = (2, 3, 21, 16)
    arguments = [strided(shape, how if i == which else "", i) for i in range(3)]
    check(door, *arguments, train=train, is_causal=True)


@pytest.mark.parametrize("shape", [(12, 8), (3, 12, 8), (2, 2, 3, 12, 8)])
def test_other_ranks(door, shape):
    check(door, *(numbers(*shape, seed=i) for i in range(3)))
    mask = numbers(*shape[:-1], 12, seed=7) > 0
    mask[..., 0] = True
    check(door, *(numbers(*shape, seed=i) for i in range(3)), mask)


def test_values_of_another_width(door):
    check(door, numbers(2, 3, 20, 8, seed=1), numbers(2, 3, 20, 8, seed=2), numbers(2, 3, 20, 24, seed=3))


@pytest.mark.parametrize("shape", [(0, 2, 4, 8), (2, 2, 0, 8), (2, 2, 3, 0, 8)])
def test_empty_tensors(door, shape):
    q = numbers(*shape).requires_grad_()
    y = door(q, q, q)
    y.sum().backward()
    assert y.shape == shape and q.grad.shape == shape


def test_no_keys():
    q, k = numbers(1, 2, 4, 8).requires_grad_(), numbers(1, 2, 0, 8).requires_grad_()
    y = chumoku.scaled_dot_product_attention(q, k, k)
    y.sum().backward()
    assert (y == 0).all() and (q.grad == 0).all()


def test_large_scores_in_f16(door):
    q, k, v = (300 * numbers(1, 1, 20, 8, seed=i, dtype=torch.float16) for i in range(3))
    y = door(q, k, v)
    assert torch.isfinite(y).all()


def test_dropout_follows_the_seed_of_pytorch():
    q, k = (numbers(2, 2, 200, 8, seed=i) for i in range(2))
    v = torch.ones(2, 2, 200, 1, requires_grad=True)
    torch.manual_seed(5)
    first = chumoku.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    assert abs(first.mean() - 1) < 0.05 and first.std() > 0.02
    torch.manual_seed(5)
    assert torch.equal(first, chumoku.scaled_dot_product_attention(q, k, v, dropout_p=0.25))
    # The backward pass drops the same weights as the forward pass: y = P v, so Σ y = Σ v · dv where v is 1.
    first.sum().backward()
    torch.testing.assert_close(v.grad.sum(), first.sum(), rtol=1e-4, atol=0)


def test_gradients_of_all_other_options():
    """Compares softcap, windows, ALiBi, sinks, learned masks and log-sum-exp in double precision with finite
    differences."""
    q, k, v = (numbers(2, 4 if i == 0 else 2, 5 + i, 3, seed=i, dtype=torch.float64) for i in (0, 1, 1))
    v = numbers(2, 2, 6, 4, seed=8, dtype=torch.float64)
    mask, sinks = numbers(1, 4, 5, 6, seed=4, dtype=torch.float64), numbers(4, seed=5, dtype=torch.float32)
    cases = [
        {},
        {"causal": "bottom_right"},
        {"causal": "bottom_right", "window": (2, None)},
        {"softcap": 1.5},
        {"alibi": [0.5, 0.2, 0.1, 0.05]},
        {"dropout": 0.4, "seed": 11},
        {"key_lengths": [6, 3]},
    ]
    for case in cases:

        def both(q, k, v, mask):
            found = chumoku.attention(q, k, v, mask=mask, return_lse=True, **case)
            return found.output, found.log_sum_exp

        inputs = [x.clone().requires_grad_() for x in (q, k, v, mask)]
        assert torch.autograd.gradcheck(both, inputs, atol=1e-7), case
    # Sinks are float32: compared with finite differences of the whole output.
    sinks.requires_grad_()
    loss = lambda s: (chumoku.attention(q, k, v, sinks=s) ** 2).sum()
    loss(sinks).backward()
    for i in range(4):
        step = torch.zeros(4)
        step[i] = 1 / 64
        slope = (loss((sinks + step).detach()) - loss((sinks - step).detach())) * 32
        torch.testing.assert_close(sinks.grad[i].double(), slope, rtol=1e-3, atol=1e-4)


def test_operators_pass_the_checks_of_pytorch():
    q, k, v = (numbers(1, 2, 5, 4, seed=i).requires_grad_() for i in range(3))
    settings = "scale=0.5;causal=True;diagonal=top_left"
    torch.library.opcheck(torch.ops.chumoku.attention.default, (q, k, v, None, None, None, settings))
    mask = numbers(5, 5).requires_grad_()
    torch.library.opcheck(torch.ops.chumoku.attention.default, (q, k, v, mask, None, None, settings))
    packed = numbers(6, 2, 4).requires_grad_()
    settings = "causal=True;query_offsets=0,2,6;key_offsets=0,2,6"
    torch.library.opcheck(torch.ops.chumoku.attention.default, (packed, packed, packed, None, None, None, settings))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_graphs(door, dynamic):
    function = lambda q, k, v: door(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for n in (16, 20):
        a = [numbers(2, 3, n, 8, seed=i).requires_grad_() for i in range(3)]
        b = [x.detach().clone().requires_grad_() for x in a]
        y, z = function(*a), compiled(*b)
        assert torch.equal(y, z)
        y.square().sum().backward()
        z.square().sum().backward()
        assert all(torch.equal(x.grad, w.grad) for x, w in zip(a, b))


def test_dropout_in_compiled_graphs_follows_the_seed():
    function = lambda q: chumoku.scaled_dot_product_attention(q, q, q, dropout_p=0.5)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    q = numbers(1, 2, 40, 8).requires_grad_()
    torch.manual_seed(1)
    first = compiled(q)
    first.sum().backward()
    assert not torch.equal(first, compiled(q)) and torch.isfinite(q.grad).all()
    torch.manual_seed(1)
    assert torch.equal(first, compiled(q))


def test_meta_tensors():
    q = torch.empty(2, 3, 7, 8, device="meta")
    assert chumoku.attention(q, q, torch.empty(2, 3, 7, 5, device="meta")).shape == (2, 3, 7, 5)


def test_memory_layouts_match_their_declaration():
    """Joining the heads of an output copies nothing. The strides of PyTorch's operator match its shape function."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    q, k, v = (numbers(2, 3, 7, 8, seed=i) for i in range(3))
    assert chumoku.attention(q, k, v).transpose(1, 2).is_contiguous()
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    chumoku.torch.activate()
    try:
        for a in (q, numbers(2, 7, 3, 8, seed=4).transpose(1, 2)):
            real = operator(a, k, v)
            mode = FakeTensorMode()
            with mode:
                foretold = operator(*(mode.from_tensor(x) for x in (a, k, v)))
            assert [x.stride() for x in real] == [x.stride() for x in foretold]
    finally:
        chumoku.torch.deactivate()


def test_modules_run_without_materializing_weights():
    """nn.MultiheadAttention and a whole encoder layer, trained for one step on both paths."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    x = numbers(2, 10, 32).requires_grad_()

    def gradients():
        layer.zero_grad()
        layer(x).square().sum().backward()
        return [p.grad.clone() for p in layer.parameters()]

    own = gradients()
    chumoku.torch.activate()
    try:
        ours = gradients()
    finally:
        chumoku.torch.deactivate()
    for a, b in zip(own, ours):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_broadcast_masks_are_not_expanded():
    from chumoku._operators import _kernel_mask

    wide = numbers(2, 1, 1, 9, dtype=torch.bfloat16).expand(2, 4, 9, 9)
    small = _kernel_mask(wide, torch.bfloat16)
    assert small.dtype == torch.float32 and small.shape == (2, 1, 1, 9)
    q = numbers(2, 4, 9, 8, dtype=torch.bfloat16)
    torch.testing.assert_close(chumoku.attention(q, q, q, mask=wide), chumoku.attention(q, q, q, mask=wide.contiguous()))
    assert chumoku.torch.explain(q.int(), q.int(), q.int()).startswith("None: expected float32")


def test_activation_and_deactivation():
    q = numbers(1, 2, 9, 8)
    before = OWN(q, q, q)
    assert not chumoku.torch.is_active() and "activate() has not been called" in chumoku.torch.explain(q, q, q)
    chumoku.torch.activate()
    chumoku.torch.activate()
    assert chumoku.torch.is_active() and chumoku.torch.explain(q, q, q).startswith("Chumoku: ")
    inside = OWN(q, q, q)
    torch.testing.assert_close(before, inside, atol=2e-6, rtol=2e-6)
    chumoku.torch.deactivate()
    chumoku.torch.deactivate()
    assert torch.equal(OWN(q, q, q), before)


def test_explain_matches_the_actual_path():
    """If explain() says that a call runs on Chumoku's kernels, it does; if it says PyTorch's plain path, it does not.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            self.names.append(str(function))
            return function(*arguments, **(keywords or {}))

    q, wide = numbers(2, 2, 9, 8), numbers(2, 2, 9, 12)
    learns = numbers(9, 9).requires_grad_()
    cases = [
        ((q, q, q), {}),
        ((q, q, q), {"is_causal": True}),
        ((q, q, q), {"attn_mask": numbers(9, 9) > 0}),
        ((q, q[:, :1], q[:, :1]), {"enable_gqa": True}),
        ((q[:, :, :1], q, q), {}),
        ((q, q, q), {"dropout_p": 0.1}),
        ((q, q, wide), {}),
        ((q[0], q[0], q[0]), {}),
        ((q.mT.contiguous().mT, q, q), {}),
        ((q, q[:, :, :0], q[:, :, :0]), {}),
        ((q, q, q), {"attn_mask": learns}),
        ((q.half(), q.half(), q.half()), {}),
    ]
    chumoku.torch.activate()
    try:
        for arguments, keywords in cases:
            said = chumoku.torch.explain(*arguments, **keywords)
            with Seen() as seen:
                seen.names = []
                OWN(*arguments, **keywords)
            fused = any("flash_attention_for_cpu" in name for name in seen.names)
            assert fused == said.startswith("Chumoku: "), (said, keywords, seen.names)
    finally:
        chumoku.torch.deactivate()


def test_weights_and_statistics_of_tensors():
    q, k, v = (numbers(1, 2, 6, 4, seed=i) for i in range(3))
    found = chumoku.attention(q, k, v, return_weights=True, statistics=["entropy", "mass", "top:2"])
    scores = (q.double() @ k.double().mT / 2).softmax(-1)
    torch.testing.assert_close(found.weights.double(), scores, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.statistics.mass.double(), scores.sum(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.statistics.top_weights.double(), scores.topk(2).values, atol=1e-6, rtol=0)


def test_tensors_and_arrays_give_the_same_bytes():
    """Tensors run on PyTorch's threads and arrays on ours. The results are equal for any number of either."""
    import sys

    from chumoku._operators import _gomp_parallel

    if sys.platform == "linux":
        assert _gomp_parallel() != 0, "PyTorch's OpenMP was not found"
    q, k, v = (numbers(2, 4, 300, 32, seed=i) for i in range(3))
    expected = chumoku.attention(q.numpy(), k.numpy(), v.numpy())
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            a = [x.clone().requires_grad_() for x in (q, k, v)]
            y = chumoku.attention(*a)
            assert (y.detach().numpy() == expected).all()
            y.sum().backward()
            gradients = [x.grad for x in a]
            if threads == 1:
                alone = gradients
            assert all(torch.equal(x, z) for x, z in zip(alone, gradients))
    finally:
        torch.set_num_threads(before)


def test_data_loaders_with_forked_workers():
    """Runs attention in the worker processes of a DataLoader after it ran in the parent."""
    x = numbers(1, 2, 200, 16)
    expected = chumoku.attention(x, x, x)

    class Texts(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return chumoku.attention(x, x, x)[0]

    loader = torch.utils.data.DataLoader(Texts(), num_workers=2, multiprocessing_context="fork", timeout=60)
    assert all(torch.equal(batch, expected) for batch in loader)


def test_errors_name_the_problem():
    q = numbers(2, 4, 5, 8)
    with pytest.raises(RuntimeError, match="not both"):
        chumoku.scaled_dot_product_attention(q, q, q, torch.ones(5, 5, dtype=torch.bool), is_causal=True)
    with pytest.raises(RuntimeError, match="enable_gqa"):
        chumoku.scaled_dot_product_attention(q, q[:, :2], q[:, :2])
    with pytest.raises(TypeError, match="torch.float32 as of query"):
        chumoku.scaled_dot_product_attention(q, q.double(), q)
    with pytest.raises(RuntimeError, match="attn_mask: expected bool"):
        chumoku.scaled_dot_product_attention(q, q, q, torch.ones(5, 5, dtype=torch.int64))
    with pytest.raises(TypeError, match="key: expected the same kind of array as query, got ndarray"):
        chumoku.attention(q, q.numpy(), q)
    with pytest.raises(TypeError, match="expected float32"):
        chumoku.attention(q.int(), q.int(), q.int())
    with pytest.raises(ValueError, match="mask"):
        chumoku.attention(q, q, q, mask=torch.ones(4, 4))
    with pytest.raises(ValueError, match="softcap"):
        chumoku.attention(q, q, q, softcap=0.0)


def test_the_fast_path_matches_the_operator():
    """Skipping the dispatcher changes no result, and observers still see the operator."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Looks(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    q, k, v = (numbers(2, 3, 5, 8, seed=i).requires_grad_() for i in range(3))
    mask = (numbers(3, 5, 5, seed=3) > 0.5).to(torch.float32).requires_grad_()
    calls = {
        "plain": lambda: chumoku.scaled_dot_product_attention(q, k, v, is_causal=True),
        "mask": lambda: chumoku.scaled_dot_product_attention(q, k, v, mask),
        "all": lambda: chumoku.attention(q, k, v, softcap=3.0, mask=mask, return_lse=True, statistics=("mass",)).output,
        "dropout": lambda: chumoku.attention(q, k, v, dropout=0.5, seed=3),
    }
    for name, call in calls.items():
        wanted = (q, k, v, mask) if name in ("mask", "all") else (q, k, v)
        short, seen[:] = call(), []
        gradients = torch.autograd.grad(short.square().sum(), wanted)
        with torch.no_grad():
            assert torch.equal(call(), short) and call().stride() == short.stride()
        with Looks():
            long = call()
        assert any("chumoku.attention" in each for each in seen), "a mode sees it"
        assert torch.equal(long, short) and long.stride() == short.stride()
        for a, b in zip(torch.autograd.grad(long.square().sum(), wanted), gradients):
            assert torch.equal(a, b)
    with torch.profiler.profile() as profile:
        calls["plain"]().sum().backward()
    names = {event.key for event in profile.key_averages()}
    assert {"chumoku::attention", "chumoku::attention_backward"} <= names
    traced = torch.jit.trace(lambda a: chumoku.scaled_dot_product_attention(a, a, a), (q.detach(),), check_trace=False)
    other = numbers(2, 3, 5, 8, seed=9)
    assert torch.equal(traced(other), chumoku.scaled_dot_product_attention(other, other, other)), "numbers are not baked in"
    # The backward graph may be compiled even if the forward pass is not.
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        compiled = torch.autograd.grad(chumoku.scaled_dot_product_attention(q, k, v).square().sum(), q)[0]
    expected = torch.autograd.grad(chumoku.scaled_dot_product_attention(q, k, v).square().sum(), q)[0]
    torch.testing.assert_close(compiled, expected)
