"""Chumoku's attention in PyTorch: operators with gradients, and a provider for PyTorch's own function.

``activate()`` makes every program that calls ``torch.nn.functional.scaled_dot_product_attention`` on the CPU run on these
kernels; ``deactivate()`` undoes it; ``explain()`` says which path a call takes, and why. ``watch()`` shows where a model looks.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from . import _chumoku
from ._arrays import AttentionResult, Statistics, top_count
from ._watch import Watch, Watched, watch

__all__ = ["Watch", "Watched", "activate", "deactivate", "explain", "is_active", "watch"]

_NAMES = {
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.bool: "bool",
    torch.int64: "int64",
}


def _memory(x: torch.Tensor | None) -> tuple | None:
    """What the kernels read: address, type, shape and strides in numbers. The tensor must be held until they have."""
    return None if x is None else (x.data_ptr(), _NAMES[x.dtype], x.shape, x.stride())


def _rows(x: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy where the numbers of a row do not lie side by side."""
    return x if x.stride(-1) == 1 or x.shape[-1] <= 1 else x.contiguous()


def _sums(dtype: torch.dtype) -> torch.dtype:
    """The type of sums: of log-sum-exp and of additive masks."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _readable(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """A mask as the kernels read it: booleans, or numbers of the type of sums."""
    if mask is None or mask.dtype in (torch.bool, _sums(dtype)):
        return mask
    if not mask.requires_grad:
        # Once for what broadcasts without memory: converting would write all of it.
        for axis in range(mask.dim()):
            if mask.stride(axis) == 0 and mask.shape[axis] > 1:
                mask = mask.narrow(axis, 0, 1)
    return mask.to(_sums(dtype))


# ---------------------------------------------------------------------------------------------------------------------
# Operators. `chumoku::attention` and its backward have a CPU kernel, one for shapes (Meta), and the first one for Autograd:
# `torch.library.custom_op` would do the same at 35 µs a call, 166 µs with gradients.
#
# Settings are one string, from which options are made once.

_LIBRARY = torch.library.Library("chumoku", "DEF")
_LIBRARY.define(
    "attention(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? sinks, Tensor? seed, str settings) -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "attention_backward(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? sinks, Tensor? seed, Tensor output, "
    "Tensor log_sum_exp, Tensor d_output, Tensor? d_log_sum_exp, bool wants_mask, bool wants_sinks, "
    "str settings) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)

@functools.lru_cache(maxsize=256)
def _plan_of(settings: str, seed: int, precision: str, threads: int) -> Any:
    options = {"precision": precision} | _options(settings)
    return _chumoku.Options(**options, seed=seed, openmp=threads)


def _plan(seed: torch.Tensor | None, settings: str) -> Any:
    """The settings of the operators as the module's options."""
    seed = 0 if seed is None else int(seed)
    return _plan_of(settings, seed, torch.get_float32_matmul_precision(), torch.get_num_threads())


def _gomp_parallel() -> int:
    """The address of `GOMP_parallel` in the OpenMP that is loaded, or 0 where there is none."""
    import ctypes

    try:
        with open("/proc/self/maps") as maps:
            loaded = {line.split(maxsplit=5)[-1].strip() for line in maps if "/" in line}
    except OSError:
        return 0
    libraries = [path for path in loaded if path.rpartition("/")[2].startswith(("libgomp", "libiomp", "libomp"))]
    if len(libraries) != 1:  # Of several nobody knows which one is PyTorch's.
        libraries = [path for path in libraries if "/torch" in path]
    for path in libraries[:1]:
        try:
            return ctypes.cast(ctypes.CDLL(path).GOMP_parallel, ctypes.c_void_p).value or 0
        except (OSError, AttributeError):
            pass
    return 0


# Attention runs on PyTorch's own threads: they spin for a while after each of its operations, and would keep others waiting.
_chumoku.use_openmp(_gomp_parallel())


def _results(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, packed: bool) -> tuple:
    """Room for output and log-sum-exp. The output is (batch, length, heads, width) in memory: what follows joins the heads."""
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
    """Room for gradients, laid out as in memory as what they are of, where that is dense."""
    sums = _sums(query.dtype)
    d_mask = query.new_empty(mask.shape if wants_mask else 0, dtype=sums)
    d_sinks = query.new_empty(sinks.shape if wants_sinks else 0, dtype=sums)
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), d_mask, d_sinks


def _backward_cpu(
    query, key, value, mask, sinks, seed, output, log_sum_exp, d_output, d_log_sum_exp, wants_mask, wants_sinks, settings
):
    results = _gradients(query, key, value, mask, sinks, wants_mask, wants_sinks)
    query, key, value, output, d_output = (_rows(x) for x in (query, key, value, output, d_output))
    # Rows of gradients are written side by side.
    written = [x if x.stride(-1) == 1 or x.shape[-1] <= 1 else torch.empty(x.shape, dtype=x.dtype) for x in results[:3]]
    d_log_sum_exp = None if d_log_sum_exp is None else d_log_sum_exp.contiguous()
    reads = (query, key, value, mask, sinks, output, log_sum_exp, d_output, d_log_sum_exp)
    wanted = (results[3] if wants_mask else None, results[4] if wants_sinks else None)
    _chumoku.attention_backward(
        _plan(seed, settings), *(_memory(x) for x in reads), *(_memory(x) for x in written), *(_memory(x) for x in wanted)
    )
    for result, x in zip(results, written):
        if result is not x:
            result.copy_(x)
    return results


def _backward_meta(
    query, key, value, mask, sinks, seed, output, log_sum_exp, d_output, d_log_sum_exp, wants_mask, wants_sinks, settings
):
    return _gradients(query, key, value, mask, sinks, wants_mask, wants_sinks)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, mask, sinks, seed, settings):
        with torch._C._AutoDispatchBelowAutograd():
            output, log_sum_exp = _OP(query, key, value, mask, sinks, seed, settings)
        ctx.save_for_backward(query, key, value, mask, sinks, seed, output, log_sum_exp)
        ctx.settings = settings
        ctx.set_materialize_grads(False)
        return output, log_sum_exp

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_output, d_log_sum_exp):
        return _of_saved(ctx, d_output, d_log_sum_exp)


def _of_saved(ctx, d_output, d_log_sum_exp):
    """The gradients of a call, from what it saved."""
    query, key, value, mask, sinks, seed, output, log_sum_exp = saved = ctx.saved_tensors
    if d_output is None and d_log_sum_exp is None:
        return (None,) * 7
    if d_output is None:
        d_output = torch.zeros_like(output)
    wants_mask, wants_sinks = ctx.needs_input_grad[3], ctx.needs_input_grad[4]
    # The graph of gradients may be compiled where that of values was not.
    is_direct = not torch.compiler.is_compiling() and _is_direct(*saved, d_output, d_log_sum_exp)
    d_query, d_key, d_value, d_mask, d_sinks = (_backward_cpu if is_direct else _OP_BACKWARD)(
        query, key, value, mask, sinks, seed, output, log_sum_exp, d_output, d_log_sum_exp, wants_mask, wants_sinks, ctx.settings
    )
    return d_query, d_key, d_value, d_mask if wants_mask else None, d_sinks if wants_sinks else None, None, None


def _attention_autograd(query, key, value, mask, sinks, seed, settings):
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (query, key, value, mask, sinks)):
        return _Attention.apply(query, key, value, mask, sinks, seed, settings)
    with torch._C._AutoDispatchBelowAutograd():
        return _OP(query, key, value, mask, sinks, seed, settings)


# ---------------------------------------------------------------------------------------------------------------------
# The same past PyTorch's dispatcher, which is called twice for an operator in Python, where that can make no difference.

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_FLOATS = frozenset((torch.float32, torch.float64, torch.bfloat16, torch.float16))


def _is_direct(*tensors: torch.Tensor | None) -> bool:
    """Whether these are tensors with numbers in memory, and nobody looks on: no mode, transformation, trace or profile."""
    for x in tensors:
        if x is not None and (type(x) not in _PLAIN or not x.is_cpu):
            return False
    return not (
        torch._C._len_torch_dispatch_stack()
        or torch._C._is_torch_function_mode_enabled()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._get_tracing_state() is not None
        or torch.autograd.profiler._is_profiler_enabled
    )


def _direct(query, key, value, mask, sinks, seed, settings, wants_log_sum_exp):
    """As `_attention_cpu`; without log-sum-exp if nobody asks for that."""
    shape, packed = query.shape, _is_packed(settings)
    if packed or 0 in shape or 0 in value.shape:
        output, log_sum_exp = _results(query, key, value, packed)
    else:
        b, h, n, _ = shape
        width = value.shape[3]
        # As `_results` lays it out, in one step.
        output = query.new_empty_strided((b, h, n, width), (n * h * width, width, h * width, 1))
        log_sum_exp = query.new_empty((b, h, n), dtype=_sums(query.dtype)) if wants_log_sum_exp else None
    query, key, value = _rows(query), _rows(key), _rows(value)
    reads = (_memory(query), _memory(key), _memory(value), _memory(mask), _memory(sinks))
    _chumoku.attention_forward(_plan(seed, settings), *reads, _memory(output), _memory(log_sum_exp))
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
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_output, d_log_sum_exp):
        return _of_saved(ctx, d_output, d_log_sum_exp)


def _call(query, key, value, mask, sinks, seed, settings, wants_log_sum_exp=True):
    """The operator, by the shortest way."""
    # (What is compiled takes the operator, and asks nothing else.)
    if torch.compiler.is_compiling() or not _is_direct(query, key, value, mask, sinks):
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
_OP = torch.ops.chumoku.attention.default
_OP_BACKWARD = torch.ops.chumoku.attention_backward.default


# ---------------------------------------------------------------------------------------------------------------------
# What the package calls for tensors.


def _seed(dropout: float, seed: int | None) -> torch.Tensor | None:
    """What dropout goes by: without a seed PyTorch's generator is asked, so that torch.manual_seed repeats it."""
    if not dropout:
        return None
    return torch.randint(0, 2**63 - 1, ()) if seed is None else torch.tensor(seed, dtype=torch.int64)


def _settings(options: dict) -> str:
    """The settings of the operators, from the options of `chumoku.attention`: `name=number` or `name=number,number`, for those that
    say something. (Of constants and formats alone, which compiled graphs can follow.)"""
    parts = []
    for name, x in options.items():
        if isinstance(x, (list, tuple)):
            x = ",".join(["" if number is None else f"{number}" for number in x])
            if x:
                parts.append(f"{name}={x}")
        elif x is not None and x is not False:
            parts.append(f"{name}={x}")
    return ";".join(parts)


def _options(settings: str) -> dict:
    """The options that these settings are of."""
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
            options[name] = [float(slope) for slope in x.split(",")]
        elif name.endswith(("lengths", "offsets")):
            options[name] = [int(number) for number in x.split(",")]
        else:
            options[name] = True if x == "True" else x
    return options


def _plain_settings(is_causal: bool, scale: float | None, dropout: float = 0.0) -> str:
    """Those of PyTorch's function."""
    settings = "causal=True;diagonal=top_left" if is_causal else ""
    if scale is not None:
        settings += f";scale={float(scale)!r}"
    return f"{settings};dropout={dropout}" if dropout else settings


def _is_packed(settings: str) -> bool:
    return "query_offsets=" in settings


def _check(arrays: tuple, rank: int) -> None:
    for what, x in zip(("query", "key", "value"), arrays):
        if x.device.type not in ("cpu", "meta"):
            raise ValueError(f"{what}: expected a tensor on the CPU, got one on {x.device}")
        if x.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            raise TypeError(f"{what}: expected float32, float64, bfloat16 or float16, got {x.dtype}")
        if x.dtype != arrays[0].dtype:
            raise TypeError(f"{what}: expected {arrays[0].dtype} as of query, got {x.dtype}")
        if x.dim() != rank:
            expected = "(batch, heads, length, width)" if rank == 4 else "(tokens, heads, width)"
            raise ValueError(f"{what}: expected shape {expected}, got {tuple(x.shape)}")


def attention(
    arrays: tuple,
    mask: torch.Tensor | None,
    sinks: torch.Tensor | None,
    options: dict,
    seed: int | None,
    precision: str | None,
    return_lse: bool,
    return_weights: bool,
    statistics: tuple[str, ...],
) -> AttentionResult:
    """See :func:`chumoku.attention`, which has checked what is alike for all arrays."""
    query, key, value = arrays
    packed = options["query_offsets"] is not None
    _check(arrays, 3 if packed else 4)
    if options["softcap"] is not None and not options["softcap"] > 0:
        raise ValueError(f"softcap: expected a number above 0, got {options['softcap']}")
    mask = _readable(mask, query.dtype)
    if sinks is not None:
        sinks = sinks.to(torch.float32).contiguous()
    settings = _settings(options | {"precision": precision})
    random = _seed(options["dropout"], seed)
    output, log_sum_exp = _call(query, key, value, mask, sinks, random, settings, return_lse)
    weights = found = None
    if return_weights or statistics:
        plan = _plan(random, settings)
        with torch.no_grad():
            query, key, value = _rows(query), _rows(key), _rows(value)
            reads = (_memory(query), _memory(key), _memory(value), _memory(mask), _memory(sinks))
            (b, h, n, _), s, sums = query.shape, key.shape[2], _sums(query.dtype)
            if return_weights:
                weights = query.new_empty(b, h, n, s, dtype=sums)
                _chumoku.attention_weights(plan, *reads, _memory(weights))
            if statistics:
                count = top_count(statistics)
                found = Statistics(
                    query.new_empty(b, h, s, dtype=sums) if "mass" in statistics else None,
                    query.new_empty(b, h, n, dtype=sums) if "entropy" in statistics else None,
                    query.new_empty(b, h, n, count, dtype=torch.int64) if count else None,
                    query.new_empty(b, h, n, count, dtype=sums) if count else None,
                )
                _chumoku.attention_statistics(plan, *reads, *(_memory(x) for x in found))  # type: ignore[call-arg]
    return AttentionResult(output, log_sum_exp if return_lse else None, weights, found)


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    """See :func:`chumoku.scaled_dot_product_attention`."""
    if attn_mask is not None and is_causal:
        raise RuntimeError("expected attn_mask or is_causal, not both")
    rank, of_key, of_value = query.dim(), key.dim(), value.dim()
    if not rank == of_key == of_value == 4:
        if min(rank, of_key, of_value) < 2:
            raise RuntimeError("expected tensors of two axes or more")
        rank = max(rank, of_key, of_value)
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, query.dtype):
        raise RuntimeError(f"attn_mask: expected bool or {query.dtype} as of query, got {attn_mask.dtype}")
    shape = None
    if not rank == of_key == of_value == 4 or (
        query.shape[:2] != key.shape[:2] or key.shape[:3] != value.shape[:3]
    ):
        query, key, value, attn_mask, shape = _four(query, key, value, attn_mask, rank, enable_gqa)
    dtype = query.dtype
    if not (query.is_cpu and key.is_cpu and value.is_cpu and dtype == key.dtype == value.dtype and dtype in _FLOATS):
        _check((query, key, value), 4)
    settings = _plain_settings(is_causal, scale, dropout_p)
    output = _call(query, key, value, _readable(attn_mask, dtype), None, _seed(dropout_p, None), settings, False)[0]
    return output if shape is None else output.reshape(*shape, output.shape[-1])


def _four(query, key, value, mask, rank, enable_gqa):
    """Tensors of any rank as (batch, heads, length, width), with the mask, and the shape of the output but for its width."""
    q, k, v = (x.reshape((1,) * (rank - x.dim()) + tuple(x.shape)) for x in (query, key, value))
    if enable_gqa and rank >= 3:
        inner = 3
        if q.shape[-3] % max(k.shape[-3], 1) or k.shape[-3] != v.shape[-3]:
            raise RuntimeError(f"expected a divisor of {q.shape[-3]} heads, got {k.shape[-3]} and {v.shape[-3]} key heads")
    else:
        inner = 2
    try:
        leading = torch.broadcast_shapes(*(x.shape[:-inner] for x in (q, k, v)))
    except RuntimeError as error:
        hint = "" if enable_gqa else " (enable_gqa=True lets fewer key heads serve several heads)"
        raise RuntimeError(f"expected shapes that fit together, got {[tuple(x.shape) for x in (q, k, v)]}{hint}") from error
    q, k, v = (x.expand(*leading, *x.shape[-inner:]) for x in (q, k, v))
    shape = q.shape[:-1]
    if mask is not None and rank > 4:
        mask = mask.expand(*shape, k.shape[-2]).reshape(-1, *shape[-2:], k.shape[-2])
    # What is missing at the front counts as one: of three axes the first is that of heads.
    if rank < 4:
        q, k, v = (x.reshape((1,) * (4 - rank) + tuple(x.shape)) for x in (q, k, v))
    elif rank > 4:
        q, k, v = (x.reshape(-1, *x.shape[-3:]) for x in (q, k, v))
    return q, k, v, mask, shape


# ---------------------------------------------------------------------------------------------------------------------
# The provider for torch.nn.functional.scaled_dot_product_attention.

_provider: torch.library.Library | None = None


def _sdpa_forward(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    # PyTorch hands dropout of weights to its plain path.
    plan = _plan(None, _plain_settings(is_causal, scale))
    b, h, n, _ = query.shape
    # What PyTorch's own shapes of this operator promise to compiled graphs.
    output = torch.empty_like(query)
    log_sum_exp = query.new_empty(b, n, h, dtype=_sums(query.dtype)).transpose(1, 2)
    rows = log_sum_exp if h == 1 or n == 1 else torch.empty_like(log_sum_exp, memory_format=torch.contiguous_format)
    written = output if output.stride(-1) == 1 or output.shape[-1] <= 1 else torch.empty_like(output, memory_format=torch.contiguous_format)
    query, key, value, mask = _rows(query), _rows(key), _rows(value), _readable(attn_mask, query.dtype)
    reads = (_memory(query), _memory(key), _memory(value), _memory(mask), None)
    _chumoku.attention_forward(plan, *reads, _memory(written), _memory(rows))
    if rows is not log_sum_exp:
        log_sum_exp.copy_(rows)
    if written is not output:
        output.copy_(written)
    return output, log_sum_exp


def _sdpa_backward(
    grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, *, attn_mask=None, scale=None
):
    settings = _plain_settings(is_causal, scale)
    mask = _readable(attn_mask, query.dtype)
    return _backward_cpu(
        query, key, value, mask, None, None, out, logsumexp.contiguous(), grad_out, None, False, False, settings
    )[:3]


def is_active() -> bool:
    """Whether ``torch.nn.functional.scaled_dot_product_attention`` runs on these kernels."""
    return _provider is not None


def activate() -> None:
    """Puts these kernels behind ``torch.nn.functional.scaled_dot_product_attention`` on the CPU.

    Programs, modules and compiled graphs that call it need no change, gradients included. What PyTorch does not hand to a
    fused kernel (dropout, masks that need a gradient, values of another width) stays on its own path: ``explain()`` says so,
    and ``chumoku.scaled_dot_product_attention`` takes it.
    """
    global _provider
    if _provider is not None:
        return
    library = torch.library.Library("aten", "IMPL")
    library.impl("_scaled_dot_product_flash_attention_for_cpu", _sdpa_forward, "CPU", allow_override=True)
    library.impl("_scaled_dot_product_flash_attention_for_cpu_backward", _sdpa_backward, "CPU", allow_override=True)
    _provider = library


def deactivate() -> None:
    """Gives ``torch.nn.functional.scaled_dot_product_attention`` its own kernels back."""
    global _provider
    if _provider is not None:
        _provider._destroy()
        _provider = None


def explain(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> str:
    """Which path this call of ``scaled_dot_product_attention`` takes now, and why, in a sentence or two."""
    why = None
    tensors = (query, key, value)
    grad = torch.is_grad_enabled()
    if any(x.device.type != "cpu" for x in tensors):
        return f"PyTorch's kernels for {query.device.type}: these are for the CPU."
    if query.dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        return f"None: expected float32, float64, bfloat16 or float16, got {query.dtype}."
    elif dropout_p > 0:
        why = "dropout of weights is not handed to fused kernels on the CPU"
    elif any(x.dim() not in (3, 4) for x in tensors):
        why = f"tensors have {query.dim()} axes, fused kernels take 3 or 4"
    elif value.shape[-1] != query.shape[-1]:
        why = f"values are {value.shape[-1]} wide and queries {query.shape[-1]}"
    elif any(x.stride(-1) != 1 for x in tensors):
        why = "the numbers of a row do not lie side by side"
    elif 0 in (query.shape[-2], key.shape[-2]):
        why = "there are no queries or no keys"
    elif attn_mask is not None and attn_mask.requires_grad and grad:
        why = "the mask needs a gradient"
    if why is not None:
        return f"PyTorch's plain path, which holds all weights: {why}. chumoku.scaled_dot_product_attention takes it."
    if not is_active():
        return "PyTorch's fused kernel for the CPU: chumoku.torch.activate() has not been called."
    # Of three axes the first is that of heads.
    query, key, value = (x if x.dim() == 4 else x[None] for x in tensors)
    settings = _plain_settings(is_causal, scale)
    mask = _readable(attn_mask, query.dtype)
    reads = (_memory(query), _memory(key), _memory(value), _memory(mask), None)
    return f"Chumoku: {_chumoku.attention_plan(_plan(None, settings), *reads)}."
