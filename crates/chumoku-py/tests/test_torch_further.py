"""PyTorch features that a call must respect: autocast, precision, function transforms, lazy and nested tensors."""

import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import chumoku  # noqa: E402
import chumoku.torch  # noqa: E402
from chumoku._operators import _precision  # noqa: E402

OURS, OWN = chumoku.scaled_dot_product_attention, F.scaled_dot_product_attention


def numbers(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.fixture
def qkv():
    return [numbers(1, 2, 5, 4, seed=i) for i in range(3)]


@pytest.fixture
def activated():
    chumoku.torch.activate()
    yield
    chumoku.torch.deactivate()


@pytest.mark.parametrize("door", [OURS, OWN], ids=["ours", "activated"])
def test_autocast_matches_pytorch(door, qkv, activated):
    q, k, v = qkv
    mask = numbers(5, 5)

    def run(function):
        query = q.clone().requires_grad_()
        with torch.autocast("cpu"):
            output = function(query, k, v.bfloat16(), mask)
        output.float().square().sum().backward()
        return output, query.grad

    output, gradient = run(door)
    chumoku.torch.deactivate()
    expected, expected_gradient = run(OWN)
    assert output.dtype == expected.dtype == torch.bfloat16 and gradient.dtype == torch.float32
    torch.testing.assert_close(output, expected, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(gradient, expected_gradient, atol=5e-2, rtol=5e-2)


def test_autocast_of_all_other_options(qkv):
    q, k, v = qkv
    with torch.autocast("cpu"):
        found = chumoku.attention(q, k.bfloat16(), v, softcap=2.0, return_lse=True, return_weights=True, statistics=("mass",))
        wide = chumoku.attention(*(x.double() for x in qkv))
    assert found.output.dtype == torch.bfloat16 and found.weights.dtype == torch.float32 and wide.dtype == torch.float64
    torch.testing.assert_close(found.output.float(), chumoku.attention(*qkv, softcap=2.0), atol=2e-2, rtol=2e-2)


@pytest.fixture
def precisions():
    before = torch.backends.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision, torch.backends.cuda.matmul.fp32_precision
    yield
    torch.backends.fp32_precision, torch.backends.mkldnn.matmul.fp32_precision, torch.backends.cuda.matmul.fp32_precision = before


@pytest.mark.parametrize("name, expected", [("tf32", "high"), ("bf16", "medium"), ("ieee", "highest")])
def test_precision_settings(name, expected, qkv, precisions):
    torch.backends.mkldnn.matmul.fp32_precision = name
    assert _precision() == expected
    torch.testing.assert_close(OURS(*qkv), OWN(*qkv), atol=2e-2, rtol=2e-2)
    torch.backends.mkldnn.matmul.fp32_precision = "none"
    torch.backends.fp32_precision = name
    assert _precision() == expected
    # Settings of other backends have no effect.
    torch.backends.fp32_precision = "none"
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert _precision() == "highest"
    OURS(*qkv)


def test_the_older_precision_setting(precisions):
    before = torch.get_float32_matmul_precision()
    try:
        for name in ("high", "medium", "highest"):
            torch.set_float32_matmul_precision(name)
            assert _precision() == name
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("place", ["heads last", "side by side"])
def test_gradient_layouts_match_pytorch(place, activated):
    """Inductor asserts the strides of the fused operator's gradients."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    shape = (2, 3, 7, 8) if place == "side by side" else (2, 7, 3, 8)
    q, k, v = (numbers(*shape, seed=i) if place == "side by side" else numbers(*shape, seed=i).transpose(1, 2) for i in range(3))
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
    arguments = (torch.ones_like(output), q, k, v, output, lse)
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    mode = FakeTensorMode()
    with mode:
        foretold = operator(*(mode.from_tensor(x) for x in arguments), 0.0, False)
    assert [x.stride() for x in operator(*arguments, 0.0, False)] == [x.stride() for x in foretold]


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="Inductor needs a compiler of C++")
def test_inductor_with_gradients(activated):
    function = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    a = [numbers(2, 3, 8, 16, seed=i).requires_grad_() for i in range(3)]
    b = [x.detach().clone().requires_grad_() for x in a]
    torch.compile(function, backend="inductor")(*a).square().sum().backward()
    function(*b).square().sum().backward()
    for x, y in zip(a, b):
        torch.testing.assert_close(x.grad, y.grad)


def test_weights_and_statistics_in_one_graph(qkv):
    def function(q, k, v):
        found = chumoku.attention(q, k, v, return_weights=True, statistics=("mass", "entropy", "top:2"))
        return found.output, found.weights, *found.statistics

    for x, y in zip(torch.compile(function, fullgraph=True, backend="aot_eager")(*qkv), function(*qkv)):
        assert torch.equal(x, y)


def test_undefined_gradients(qkv, activated):
    class HasNone(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return None

    q = qkv[0].requires_grad_()
    HasNone.apply(OWN(*qkv)).sum().backward()
    assert q.grad is None or (q.grad == 0).all()


def test_forward_mode_is_rejected(qkv):
    q, k, v = qkv
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
        with pytest.raises(NotImplementedError, match="forward-mode"):
            OURS(dual, k, v)
        # Tensors without a tangent are computed as usual.
        assert torch.equal(OURS(q, k, v), OURS(*qkv))
    with pytest.raises(NotImplementedError):
        torch.func.jvp(lambda x: OURS(x, k, v), (q,), (q,))


@pytest.mark.parametrize("door", ["ours", "operator", "activated"])
def test_second_derivatives_are_rejected(door, qkv):
    q, k, v = qkv
    q.requires_grad_()
    functions = {"ours": OURS, "operator": lambda *x: torch.ops.chumoku.attention(*x, None, None, None, "")[0], "activated": OWN}
    if door == "activated":
        chumoku.torch.activate()
    try:
        gradient = torch.autograd.grad(functions[door](q, k, v).sum(), q, create_graph=True)[0]
        # Another path supports second derivatives.
        with pytest.raises(RuntimeError, match="second derivative|not implemented"):
            torch.autograd.grad(gradient.square().sum() + q.square().sum(), q)
    finally:
        chumoku.torch.deactivate()
    # The first derivative is the same with and without create_graph.
    assert torch.equal(gradient.detach(), torch.autograd.grad(OURS(q, k, v).sum(), q)[0]) or door == "activated"


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_function_transforms(qkv):
    q, k, v = qkv
    several = torch.stack([q, numbers(1, 2, 5, 4, seed=9)])
    of = lambda door: lambda x: door(x, k, v).square().sum()
    transformed = [
        lambda door: torch.func.grad(of(door))(q),
        lambda door: torch.func.vmap(lambda x: door(x, k, v))(several),
        lambda door: torch.func.vmap(torch.func.grad(of(door)))(several),
        lambda door: torch.func.jacrev(lambda x: door(x, k, v))(q),
    ]
    for each in transformed:
        torch.testing.assert_close(each(OURS), each(OWN), atol=2e-6, rtol=2e-5)


def test_lazy_negation(qkv):
    q, k, v = qkv
    for place in range(3):
        lazy = torch.complex(numbers(1, 2, 5, 4, seed=4), qkv[place]).conj().imag
        assert lazy.is_neg()
        for door in (lambda *x: OURS(*x), lambda *x: chumoku.attention(*x, return_weights=True).weights):
            arguments = [lazy if i == place else x for i, x in enumerate(qkv)]
            resolved = [lazy.resolve_neg() if i == place else x for i, x in enumerate(qkv)]
            assert torch.equal(door(*arguments), door(*resolved))
    mask = torch.complex(numbers(5, 5), numbers(5, 5, seed=1)).conj().imag
    assert torch.equal(OURS(q, k, v, mask), OURS(q, k, v, mask.resolve_neg()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("door", [OURS, OWN], ids=["ours", "activated"])
def test_float32_masks_with_other_element_types(door, dtype, activated):
    q, k, v = (numbers(1, 2, 5, 4, seed=i, dtype=dtype) for i in range(3))
    mask = numbers(5, 5, seed=3).requires_grad_()
    expected = OWN(q.double(), k.double(), v.double(), mask.double())
    torch.testing.assert_close(door(q, k, v, mask.detach()).double(), expected.detach(), atol=2e-2, rtol=2e-2)
    gradient = torch.autograd.grad(expected.sum(), mask)[0]
    torch.testing.assert_close(torch.autograd.grad(door(q, k, v, mask).float().sum(), mask)[0], gradient, atol=5e-2, rtol=5e-2)
    if door is OURS and dtype == torch.float16:
        arrays = [x.numpy() for x in (q, k, v, mask.detach())]
        np.testing.assert_array_equal(OURS(*arrays), OURS(q, k, v, mask.detach()).numpy())


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.complex64])
def test_masks_of_other_element_types(dtype, qkv):
    with pytest.raises(TypeError, match="mask: expected booleans, or numbers to add to scores, got torch"):
        chumoku.attention(*qkv, mask=torch.ones(5, 5, dtype=dtype))


@pytest.mark.parametrize("name", ["causal_upper_left", "causal_lower_right"])
def test_causal_biases(name, qkv):
    _, k, v = qkv
    q = numbers(1, 2, 3, 4)
    bias = getattr(torch.nn.attention.bias, name)(3, 5)
    expected = OWN(q, k, v, bias._materialize())
    torch.testing.assert_close(OURS(q, k, v, bias), expected)
    torch.testing.assert_close(chumoku.attention(q, k, v, mask=bias), expected)
    with pytest.raises(RuntimeError, match=r"expected a causal bias of \(5, 5\) queries and keys, got \(3, 5\)"):
        OURS(*qkv, bias)


@pytest.mark.parametrize("kind", ["tensors", "arrays"])
def test_lengths_and_slopes_of_any_type(kind, qkv):
    inputs = qkv if kind == "tensors" else [x.numpy() for x in qkv]
    for name, given in (("key_lengths", []), ("alibi", []), ("key_lengths", [3, 3]), ("alibi", [1.0])):
        with pytest.raises(ValueError, match=name):
            chumoku.attention(*inputs, **{name: given})
    for given in ([True], [2.0], [-1], ["2"]):
        with pytest.raises(ValueError, match="key_lengths: expected a whole number from 0 on"):
            chumoku.attention(*inputs, key_lengths=given)
    expected = chumoku.attention(*inputs, key_lengths=[3])
    for given in ([np.int64(3)], np.array([3]), torch.tensor([3])):
        assert (chumoku.attention(*inputs, key_lengths=given) == expected).all()


def test_a_device_context_of_another_device(qkv):
    q, k, v = qkv
    with torch.device("meta"):
        found = chumoku.attention(q, k, v, dropout=0.5, seed=3, return_weights=True, statistics=("entropy",))
        dropped = OURS(q, k, v, dropout_p=0.5)
        learns = q.mT.contiguous().mT.requires_grad_()
        OURS(learns, k, v).sum().backward()
    for x in (found.output, found.weights, found.statistics.entropy, dropped, learns.grad):
        assert x.device.type == "cpu"
    assert torch.equal(found.output, chumoku.attention(q, k, v, dropout=0.5, seed=3))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_non_dense_tensors(qkv):
    nested = [torch.nested.nested_tensor([numbers(2, 3, 4), numbers(2, 5, 4)]) for _ in range(3)]
    jagged = [torch.nested.nested_tensor([numbers(3, 2, 4), numbers(5, 2, 4)], layout=torch.jagged).transpose(1, 2) for _ in range(3)]
    for given in (nested, jagged):
        for door in (OURS, chumoku.attention):
            with pytest.raises(TypeError, match="query: expected a dense tensor, got a nested one: .*query_offsets"):
                door(*given)
    with pytest.raises(TypeError, match="query: expected a dense tensor, got a sparse_coo one"):
        OURS(qkv[0].to_sparse(), *qkv[1:])


def test_operation_counts(qkv):
    from torch.utils.flop_counter import FlopCounterMode

    def count(function, *given):
        with FlopCounterMode(display=False) as counter:
            function(*given)
        return counter.get_total_flops()

    def both(door):
        a = [x.clone().requires_grad_() for x in qkv]
        return count(lambda: door(*a).sum().backward())

    assert both(OURS) == both(OWN) > 0
    packed = numbers(6, 2, 4)
    assert count(lambda: chumoku.attention(packed, packed, packed, query_offsets=[0, 2, 6], key_offsets=[0, 2, 6])) == 2 * 2 * (4 + 16) * 8
