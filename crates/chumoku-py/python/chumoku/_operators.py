"""Chumoku's attention as PyTorch operators, with gradients, shapes for compiled graphs, and a fast path around the
dispatcher."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils.flop_counter import register_flop_formula

from . import _chumoku

_NAMES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.bool: "bool",
    torch.int64: "int64",
}


def _memory(x: torch.Tensor | None) -> tuple | None:
    """Describes a tensor for the kernels: address, type, shape, and strides in elements. The caller must keep the
    tensor alive during the call."""
    return None if x is None else (x.data_ptr(), _NAMES[x.dtype], x.shape, x.stride())


def _rows(x: torch.Tensor) -> torch.Tensor:
    """Returns the tensor, or a copy if the elements of a row are not contiguous."""
    return x if x.stride(-1) == 1 or x.shape[-1] <= 1 else x.contiguous()


def _read(x: torch.Tensor) -> tuple[torch.Tensor, tuple]:
    """Returns the tensor with contiguous rows, which the caller must keep alive, and its description for the kernels.
    """
    strides = x.stride()
    if strides[-1] != 1 and x.shape[-1] > 1:
        x = x.contiguous()
        strides = x.stride()
    return x, (x.data_ptr(), _NAMES[x.dtype], x.shape, strides)


def _sums(dtype: torch.dtype) -> torch.dtype:
    """The element type of sums: of the log-sum-exp and of additive masks."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _kernel_mask(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """Converts a mask for the kernels: to booleans, or to the element type of sums."""
    if mask is None or mask.dtype in (torch.bool, _sums(dtype)):
        return mask
    if not mask.is_floating_point():
        raise TypeError(f"mask: expected booleans, or numbers to add to scores, got {mask.dtype}")
    if not mask.requires_grad:
        # Converts each value of a broadcast mask once; converting the mask itself would allocate all of it.
        for axis in range(mask.dim()):
            if mask.stride(axis) == 0 and mask.shape[axis] > 1:
                mask = mask.narrow(axis, 0, 1)
    return mask.to(_sums(dtype))


# ---------------------------------------------------------------------------------------------------------------------
# Operators. `chumoku::attention` and its backward have a CPU kernel and one for shapes (Meta); the first also has one
# for Autograd. `torch.library.custom_op` would do the same at 35 µs a call, 166 µs with gradients.
#
# All settings are one string. The options parsed from each string are cached.

_LIBRARY = torch.library.Library("chumoku", "DEF")
_LIBRARY.define(
    "attention(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? sinks, Tensor? seed, str settings) -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "attention_backward(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? sinks, Tensor? seed, Tensor output, "
    "Tensor log_sum_exp, Tensor d_output, Tensor? d_log_sum_exp, bool wants_mask, bool wants_sinks, "
    "str settings) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_LIBRARY.define(
    "attention_weights(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? sinks, Tensor? seed, str settings) -> Tensor"
)
_LIBRARY.define(
    "attention_statistics(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? sinks, Tensor? seed, str settings, "
    "bool mass, bool entropy, int top) -> (Tensor, Tensor, Tensor, Tensor)"
)


@functools.lru_cache(maxsize=256)
def _plan_of(settings: str, seed: int, precision: str, threads: int) -> Any:
    options = {"precision": precision} | _options(settings)
    return _chumoku.Options(**options, seed=seed, openmp=threads)


def _settings(options: dict) -> str:
    """Builds the settings string of the operators from the options of `chumoku.attention`.

    Entries are `name=number` or `name=number,number`; options without effect are left out. Only constants and formats
    are used, so that compiled graphs can follow it.
    """
    parts = []
    for name, x in options.items():
        if isinstance(x, (list, tuple)):
            parts.append(f"{name}=" + ",".join(["" if number is None else f"{number}" for number in x]))
        elif x is not None and x is not False:
            parts.append(f"{name}={x}")
    return ";".join(parts)


def _options(settings: str) -> dict:
    """Parses a settings string into options."""
    options: dict = {}
    for part in filter(None, settings.split(";")):
        name, _, x = part.partition("=")
        if name in ("scale", "softcap", "dropout"):
            options[name] = float(x)
        elif name == "diagonal":
            options[name] = int(x) if x.lstrip("-").isdecimal() else x
        elif name == "window":
            options[name] = tuple(int(number) if number else None for number in x.split(","))
        elif name == "alibi":
            options[name] = [float(slope) for slope in x.split(",") if slope]
        elif name.endswith(("lengths", "offsets")):
            options[name] = [int(number) for number in x.split(",") if number]
        else:
            options[name] = True if x == "True" else x
    return options


def _is_packed(settings: str) -> bool:
    return "query_offsets=" in settings


def _plan(seed: torch.Tensor | None, settings: str) -> Any:
    """Parses a settings string into the native module's options."""
    seed = 0 if seed is None else int(seed)
    return _plan_of(settings, seed, _precision(), torch.get_num_threads())


_PRECISIONS = {"tf32": "high", "bf16": "medium"}
# Reads the precision of matrix products on the CPU. `torch.set_float32_matmul_precision` sets it too. PyTorch before 2.9 lacks it.
_fp32_precision = getattr(torch._C, "_get_fp32_precision_getter", None)


def _precision() -> str:
    """Returns the precision of float32 products that PyTorch is set to."""
    if _fp32_precision is None:
        return torch.get_float32_matmul_precision()
    return _PRECISIONS.get(_fp32_precision("mkldnn", "matmul"), "highest")


def _gomp_parallel() -> int:
    """Returns the address of `GOMP_parallel` in the loaded OpenMP library, or 0 if there is none."""
    import ctypes

    try:
        with open("/proc/self/maps") as maps:
            loaded = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    except OSError:
        return 0
    libraries = [path for path in loaded if path.rpartition("/")[2].startswith(("libgomp", "libiomp", "libomp"))]
    if len(libraries) != 1:  # With several OpenMP libraries, PyTorch's is unknown.
        libraries = [path for path in libraries if "/torch" in path]
    for path in libraries[:1]:
        try:
            return ctypes.cast(ctypes.CDLL(path).GOMP_parallel, ctypes.c_void_p).value or 0
        except (OSError, AttributeError):
            pass
    return 0


# Attention runs on PyTorch's own threads. They spin for a while after each operation, and would slow down other
# threads.
_chumoku.use_openmp(_gomp_parallel())


def _results(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, packed: bool) -> tuple:
    """Allocates output and log-sum-exp. The output is (batch, length, heads, width) in memory, since later layers join
    the heads."""
    if packed:
        tokens, heads = query.shape[:2]
        return query.new_empty(tokens, heads, value.shape[-1]), query.new_empty(heads, tokens, dtype=_sums(query.dtype))
    b, h, n, _ = query.shape
    output = query.new_empty(b, n, h, value.shape[-1]).transpose(1, 2)
    return output, query.new_empty(b, h, n, dtype=_sums(query.dtype))


def _attention_cpu(query, key, value, mask, sinks, seed, settings):
    query, key, value = _rows(query), _rows(key), _rows(value)
    output, log_sum_exp = _results(query, key, value, _is_packed(settings))
    reads = (_memory(query), _memory(key), _memory(value), _memory(mask), _memory(sinks))
    _chumoku.attention_forward(_plan(seed, settings), *reads, _memory(output), _memory(log_sum_exp))
    return output, log_sum_exp


def _attention_meta(query, key, value, mask, sinks, seed, settings):
    return _results(query, key, value, _is_packed(settings))


def _gradients(query, key, value, mask, sinks, wants_mask, wants_sinks):
    """Allocates gradients with the memory layout of their tensors, if that is dense."""
    sums = _sums(query.dtype)
    d_mask = query.new_empty(mask.shape if wants_mask else 0, dtype=sums)
    d_sinks = query.new_empty(sinks.shape if wants_sinks else 0, dtype=sums)
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), d_mask, d_sinks


def _backward_cpu(
    query, key, value, mask, sinks, seed, output, log_sum_exp, d_output, d_log_sum_exp, wants_mask, wants_sinks, settings
):
    results = _gradients(query, key, value, mask, sinks, wants_mask, wants_sinks)
    requested = (*results[:3], results[3] if wants_mask else None, results[4] if wants_sinks else None)
    _backward_rows(query, key, value, mask, sinks, seed, output, log_sum_exp, d_output, d_log_sum_exp, requested, settings)
    return results


def _backward_rows(query, key, value, mask, sinks, seed, output, log_sum_exp, d_output, d_log_sum_exp, results, settings):
    """Writes the gradients of query, key and value, and of mask and sinks unless they are None. Results may have any
    strides."""
    query, key, value, output, d_output = (_rows(x) for x in (query, key, value, output, d_output))
    # The kernels need contiguous rows of gradients.
    written = [x if x.stride(-1) == 1 or x.shape[-1] <= 1 else x.new_empty(x.shape) for x in results[:3]]
    d_log_sum_exp = None if d_log_sum_exp is None else d_log_sum_exp.contiguous()
    reads = (query, key, value, mask, sinks, output, log_sum_exp, d_output, d_log_sum_exp)
    _chumoku.attention_backward(
        _plan(seed, settings), *(_memory(x) for x in reads), *(_memory(x) for x in written), *(_memory(x) for x in results[3:])
    )
    for result, x in zip(results, written):
        if result is not x:
            result.copy_(x)


def _backward_meta(
    query, key, value, mask, sinks, seed, output, log_sum_exp, d_output, d_log_sum_exp, wants_mask, wants_sinks, settings
):
    return _gradients(query, key, value, mask, sinks, wants_mask, wants_sinks)


def _weights_cpu(query, key, value, mask, sinks, seed, settings):
    query, key, value = _rows(query), _rows(key), _rows(value)
    weights = _weights_meta(query, key, value, mask, sinks, seed, settings)
    reads = (_memory(query), _memory(key), _memory(value), _memory(mask), _memory(sinks))
    _chumoku.attention_weights(_plan(seed, settings), *reads, _memory(weights))
    return weights


def _weights_meta(query, key, value, mask, sinks, seed, settings):
    return query.new_empty(*query.shape[:3], key.shape[2], dtype=_sums(query.dtype))


def _statistics_cpu(query, key, value, mask, sinks, seed, settings, mass, entropy, top):
    query, key, value = _rows(query), _rows(key), _rows(value)
    found = _statistics_meta(query, key, value, mask, sinks, seed, settings, mass, entropy, top)
    reads = (_memory(query), _memory(key), _memory(value), _memory(mask), _memory(sinks))
    requested = (x if is_requested else None for x, is_requested in zip(found, (mass, entropy, top, top)))
    _chumoku.attention_statistics(_plan(seed, settings), *reads, *(_memory(x) for x in requested))  # type: ignore[call-arg]
    return found


def _statistics_meta(query, key, value, mask, sinks, seed, settings, mass, entropy, top):
    (b, h, n, _), s, sums = query.shape, key.shape[2], _sums(query.dtype)
    return (
        query.new_empty((b, h, s) if mass else 0, dtype=sums),
        query.new_empty((b, h, n) if entropy else 0, dtype=sums),
        query.new_empty((b, h, n, top) if top else 0, dtype=torch.int64),
        query.new_empty((b, h, n, top) if top else 0, dtype=sums),
    )


class _Attention(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(query, key, value, mask, sinks, seed, settings):
        with torch._C._AutoDispatchBelowAutograd():
            return _OP(query, key, value, mask, sinks, seed, settings)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.settings = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, d_output, d_log_sum_exp):
        return _saved_gradients(ctx, d_output, d_log_sum_exp)


class _Gradients(torch.autograd.Function):
    """The gradients of a call under `create_graph`, which are not differentiable.

    `once_differentiable` returns wrong second derivatives if the output's gradient requires no gradient.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(backward, *inputs):
        return backward(*inputs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError("chumoku::attention has no second derivative: derivative for its backward is not implemented")


def _saved_gradients(ctx, d_output, d_log_sum_exp):
    """Computes the gradients of a call from its saved tensors."""
    query, key, value, mask, sinks, seed, output, log_sum_exp = saved = ctx.saved_tensors
    if d_output is None and d_log_sum_exp is None:
        return (None,) * 7
    if d_output is None:
        d_output = torch.zeros_like(output)
    wants_mask, wants_sinks = ctx.needs_input_grad[3], ctx.needs_input_grad[4]
    # The backward graph may be compiled even if the forward pass was not.
    is_direct = not torch.compiler.is_compiling() and _is_direct(*saved, d_output, d_log_sum_exp)
    backward = _backward_cpu if is_direct else _OP_BACKWARD
    if torch.is_grad_enabled():
        backward = functools.partial(_Gradients.apply, backward)
    d_query, d_key, d_value, d_mask, d_sinks = backward(
        query, key, value, mask, sinks, seed, output, log_sum_exp, d_output, d_log_sum_exp, wants_mask, wants_sinks, ctx.settings
    )
    return d_query, d_key, d_value, d_mask if wants_mask else None, d_sinks if wants_sinks else None, None, None


def _attention_autograd(query, key, value, mask, sinks, seed, settings):
    if forward_ad._current_level >= 0 and any(_has_tangent(x) for x in (query, key, value, mask, sinks)):
        raise NotImplementedError(
            "chumoku::attention has no forward-mode derivative: use torch.nn.functional.scaled_dot_product_attention within "
            "torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)"
        )
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (query, key, value, mask, sinks)):
        return _Attention.apply(query, key, value, mask, sinks, seed, settings)
    with torch._C._AutoDispatchBelowAutograd():
        return _OP(query, key, value, mask, sinks, seed, settings)


def _has_tangent(x: torch.Tensor | None) -> bool:
    return x is not None and forward_ad.unpack_dual(x).tangent is not None


# ---------------------------------------------------------------------------------------------------------------------
# The same computation around PyTorch's dispatcher, which an operator in Python calls twice. Used where the result is
# the same.

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
# Dispatch keys of plain tensors: no lazy negation, no other device, no wrapper.
with torch.inference_mode():
    _OF_INFERENCE = torch.empty(0, device="cpu")
_KEYS = frozenset(torch._C._dispatch_keys(x).raw_repr() for x in (torch.empty(0, device="cpu"), _OF_INFERENCE))
_FLOATS = frozenset((torch.float32, torch.float64, torch.bfloat16, torch.float16))


def _is_direct(*tensors: torch.Tensor | None) -> bool:
    """Returns true for plain tensors in memory while no mode, transformation, trace or profiler is active."""
    for x in tensors:
        if x is not None and (type(x) not in _PLAIN or torch._C._dispatch_keys(x).raw_repr() not in _KEYS):
            return False
    return not (
        forward_ad._current_level >= 0
        or torch._C._len_torch_dispatch_stack()
        or torch._C._is_torch_function_mode_enabled()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._get_tracing_state() is not None
        or torch.autograd.profiler._is_profiler_enabled
    )


def _check_dense(**tensors: torch.Tensor | None) -> None:
    for what, x in tensors.items():
        if x is not None and (x.is_nested or x.layout != torch.strided):
            kind = "nested" if x.is_nested else str(x.layout).removeprefix("torch.")
            raise TypeError(
                f"{what}: expected a dense tensor, got a {kind} one: pad it and give key_lengths to chumoku.attention, or join its "
                "sequences and give query_offsets and key_offsets"
            )


def _direct(query, key, value, mask, sinks, seed, settings, wants_log_sum_exp):
    """Same as `_attention_cpu`, but without log-sum-exp if it is not needed."""
    of_query, of_value, packed = query.shape, value.shape, _is_packed(settings)
    if packed or 0 in of_query or 0 in of_value:
        output, log_sum_exp = _results(query, key, value, packed)
        written = _memory(output)
    else:
        b, h, n, _ = of_query
        width = of_value[3]
        # Allocates the layout of `_results` in one step.
        shape, strides = (b, h, n, width), (n * h * width, width, h * width, 1)
        output = query.new_empty_strided(shape, strides)
        written = (output.data_ptr(), _NAMES[query.dtype], shape, strides)
        log_sum_exp = query.new_empty((b, h, n), dtype=_sums(query.dtype)) if wants_log_sum_exp else None
    query, q = _read(query)
    key, k = _read(key)
    value, v = _read(value)
    _chumoku.attention_forward(_plan(seed, settings), q, k, v, _memory(mask), _memory(sinks), written, _memory(log_sum_exp))
    return output, log_sum_exp


class _DirectAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, mask, sinks, seed, settings):
        output, log_sum_exp = _direct(query, key, value, mask, sinks, seed, settings, True)
        ctx.save_for_backward(query, key, value, mask, sinks, seed, output, log_sum_exp)
        ctx.settings = settings
        ctx.set_materialize_grads(False)
        return output, log_sum_exp

    @staticmethod
    def backward(ctx, d_output, d_log_sum_exp):
        return _saved_gradients(ctx, d_output, d_log_sum_exp)


def _call(query, key, value, mask, sinks, seed, settings, wants_log_sum_exp=True):
    """Runs the operator on the fastest path."""
    # (Compiled code uses the operator and skips the remaining checks.)
    if torch.compiler.is_compiling():
        return _OP(query, key, value, mask, sinks, seed, settings)
    if not _is_direct(query, key, value, mask, sinks):
        _check_dense(query=query, key=key, value=value, mask=mask, sinks=sinks)
        if torch._C._functorch.peek_interpreter_stack() is not None:
            # `torch.func` transforms autograd functions, not the operator.
            return _Attention.apply(query, key, value, mask, sinks, seed, settings)
        return _OP(query, key, value, mask, sinks, seed, settings)
    if torch.is_grad_enabled() and (
        query.requires_grad
        or key.requires_grad
        or value.requires_grad
        or mask is not None
        and mask.requires_grad
        or sinks is not None
        and sinks.requires_grad
    ):
        return _DirectAttention.apply(query, key, value, mask, sinks, seed, settings)
    return _direct(query, key, value, mask, sinks, seed, settings, wants_log_sum_exp)


_LIBRARY.impl("attention", _attention_cpu, "CPU")
_LIBRARY.impl("attention", _attention_meta, "Meta")
_LIBRARY.impl("attention", _attention_autograd, "Autograd")
_LIBRARY.impl("attention_backward", _backward_cpu, "CPU")
_LIBRARY.impl("attention_backward", _backward_meta, "Meta")
_LIBRARY.impl("attention_weights", _weights_cpu, "CPU")
_LIBRARY.impl("attention_weights", _weights_meta, "Meta")
_LIBRARY.impl("attention_statistics", _statistics_cpu, "CPU")
_LIBRARY.impl("attention_statistics", _statistics_meta, "Meta")
_OP = torch.ops.chumoku.attention.default
_OP_BACKWARD = torch.ops.chumoku.attention_backward.default
_OP_WEIGHTS = torch.ops.chumoku.attention_weights.default
_OP_STATISTICS = torch.ops.chumoku.attention_statistics.default


# ---------------------------------------------------------------------------------------------------------------------
# Floating-point operations, counted as PyTorch counts those of its own function. Masks do not reduce them.


def _flops(query, key, value, settings: str, of_width: int, of_values: int) -> int:
    """Counts the products for each pair of query and key: `of_width` of the query's width and `of_values` of the
    value's width."""
    options = _options(settings)
    if _is_packed(settings):
        lengths = [[end - start for start, end in zip(x, x[1:])] for x in (options["query_offsets"], options["key_offsets"])]
        pairs = query[1] * sum(n * s for n, s in zip(*lengths))
    else:
        pairs = query[0] * query[1] * query[2] * key[2]
    return 2 * pairs * (of_width * query[-1] + of_values * value[-1])


@register_flop_formula(torch.ops.chumoku.attention)
def _forward_flops(query, key, value, mask, sinks, seed, settings, *, out_shape=None) -> int:
    return _flops(query, key, value, settings, 1, 1)


@register_flop_formula(torch.ops.chumoku.attention_backward)
def _backward_flops(query, key, value, mask, sinks, seed, output, lse, d_output, d_lse, a, b, settings, *, out_shape=None) -> int:
    return _flops(query, key, value, settings, 3, 2)


@register_flop_formula([torch.ops.chumoku.attention_weights, torch.ops.chumoku.attention_statistics])
def _weights_flops(query, key, value, mask, sinks, seed, settings, *arguments, out_shape=None) -> int:
    return _flops(query, key, value, settings, 1, 0)
