"""Random arguments, invalid ones and false memory descriptions: each call gives the right result or an exception, never
a crash."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("numpy")

PREAMBLE = """
import faulthandler, math, sys
import numpy as np
import chumoku
from chumoku import _chumoku
faulthandler.enable()
rng = np.random.default_rng(int(sys.argv[1]))
REFUSED = (ValueError, TypeError, OverflowError, BufferError)

def pick(*xs):
    return xs[rng.integers(len(xs))]
"""


def run(program, seed, timeout=240):
    words = [sys.executable, "-c", PREAMBLE + textwrap.dedent(program), str(seed)]
    found = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
    assert found.returncode == 0, f"ended with {found.returncode}\n{found.stdout[-2000:]}\n{found.stderr[-4000:]}"
    return found.stdout


@pytest.mark.parametrize("seed", range(4))
def test_random_arrays(seed):
    said = run(
        """
        def array(batch, heads, length, width, dtype):
            "An array of these numbers, laid out in some way."
            x = rng.standard_normal((batch, heads, length, width)).astype(dtype)
            how = rng.integers(8)
            if how == 0:
                wide = np.zeros((batch, heads, 2 * length, width + 3), dtype)
                wide[:, :, ::2, 1 : width + 1] = x
                return wide[:, :, ::2, 1 : width + 1]
            if how == 1:
                return x[:, :, ::-1].copy()[:, :, ::-1]
            if how == 2:
                return np.asfortranarray(x)
            if how == 3:
                return x.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3)
            if how == 4:
                room = np.zeros(x.nbytes + 16, np.uint8)
                shifted = np.frombuffer(room.data, dtype, x.size, offset=1).reshape(x.shape)
                shifted[...] = x
                return shifted
            if how == 5:
                x = x.astype(x.dtype.newbyteorder(">"))
            if how == 6:
                x = np.broadcast_to(x[:1], x.shape)
            x.flags.writeable = bool(rng.integers(2))
            return x

        answered = refused = 0
        for _ in range(2000):
            dtype = pick(*["f4", "f8", "f2"] * 4, "i4", "?", "c8")
            batch, heads, queries, keys, width = (int(rng.integers(a, b)) for a, b in ((0, 4), (1, 5), (0, 40), (0, 40), (1, 20)))
            # Mostly matching sizes.
            off = lambda n: n if rng.random() < 0.98 else max(0, n + int(rng.integers(-1, 2)))
            q = array(batch, heads, queries, off(width), dtype)
            k = array(off(batch), pick(heads, heads, 1), keys, width, pick(*[dtype] * 9, "f4"))
            v = array(off(batch), k.shape[1], off(keys), int(rng.integers(1, 20)), k.dtype)
            options = {}
            if rng.random() < 0.1:
                options["causal"] = pick("top_left", "bottom_right", 3, -2, 2**40, "middle", True)
            if rng.random() < 0.1:
                options["window"] = pick((2, 0), (None, 3), (0, 0), (10**9, None), (-1, 2), (1,), "ab")
            if rng.random() < 0.1:
                options["scale"] = pick(0.5, -1.0, 0.0, float("nan"), float("inf"), 10**400, "x")
            if rng.random() < 0.1:
                options["softcap"] = pick(5.0, 0.0, -1.0, float("nan"))
            if rng.random() < 0.1:
                options["alibi"] = pick([0.1] * heads, [0.1] * (heads + 1), [float("nan")] * heads, "slopes")
            if rng.random() < 0.1:
                options["key_lengths"] = pick([keys // 2] * batch, [keys + 1] * batch, [-1] * batch, [2**70] * batch, [1.5] * batch, 3)
            if rng.random() < 0.1:
                options["mask"] = pick(
                    rng.random((queries, keys)) > 0.3, rng.random((batch, 1, queries, keys)).astype(dtype if dtype[0] == "f" else "f4"),
                    np.ones((3, 3, 3, 3, 3), bool), rng.random((queries, keys + 1)) > 0.3, np.zeros((queries, keys), "i8"), "mask",
                )
            if rng.random() < 0.1:
                options["query_offsets"], options["key_offsets"] = [0, 5], pick([0, 5], [5, 0], [0, 2**63], [])
            if rng.random() < 0.1:
                options["dropout"], options["seed"] = pick(0.5, 1.0, -0.1, float("nan")), pick(1, -1, 2**64, None)
            if rng.random() < 0.1:
                options["statistics"] = pick(("mass",), ("top:3",), ("top:0",), ("median",), ("top:99999999999999999999",))
            if rng.random() < 0.1:
                options["precision"] = pick("medium", "high", "low", 3)
            if rng.random() < 0.1:
                options["return_weights"] = True
            try:
                found = chumoku.attention(q, k, v, **options)
            except REFUSED as error:
                assert str(error), options
                refused += 1
                continue
            answered += 1
            output = found if isinstance(found, np.ndarray) else found.output
            assert output.shape == (q.shape[0], heads, queries, v.shape[3])
            plain = not options or set(options) <= {"return_weights", "statistics"}
            if plain and dtype[0] == "f" and min(output.shape) > 0 and keys > 0:
                repeat = lambda x: np.repeat(x.astype("f8"), heads // x.shape[1], 1)
                scores = q.astype("f8") @ repeat(k).swapaxes(2, 3) / math.sqrt(width)
                weights = np.exp(scores - scores.max(-1, keepdims=True))
                expected = weights / weights.sum(-1, keepdims=True) @ repeat(v)
                tolerance = {"f8": 1e-12, "f4": 1e-5, "f2": 2e-2}[dtype]
                assert np.abs(output.astype("f8") - expected).max() < tolerance * (1 + np.abs(expected).max())
        print(answered, refused)
        """,
        seed,
    )
    answered, refused = map(int, said.split())
    assert answered > 200 and refused > 200


def test_false_memory_descriptions():
    said = run(
        """
        class Liar:
            def __init__(self, **interface):
                self.__array_interface__ = interface

        room = np.ones(4096, np.float32)
        address = room.__array_interface__["data"][0]
        huge = (2**31, 2**31, 2**31, 4), (2**62, 1, 1, 4), (1, 1, 1, 2**61), (1, 1, 2**63 - 1, 1)
        refused = 0
        for shape in (*huge, (-1, 1, 1, 4), (1, 1, 1, 2.5), (1,) * 70, "shape"):
            for strides in (None, (2**62,) * 4, (16, 16, 16, 4), (-16, -16, -16, 4), (1, 1, 1, 1), (4,)):
                for typestr in ("<f4", "<f8", ">f4", "<x9"):
                    liar = Liar(shape=shape, typestr=typestr, data=(address, False), strides=strides, version=3)
                    try:
                        chumoku.attention(liar, liar, liar)
                    except (*REFUSED, MemoryError):
                        refused += 1
                    else:
                        raise AssertionError((shape, strides, typestr))
        # Calls the native module with addresses directly: descriptions that no memory can match are rejected.
        options = _chumoku.Options()
        fits = lambda at, shape=(1, 1, 2, 4), strides=(8, 8, 4, 1), name="float32": (at, name, shape, strides)
        out, good = np.zeros(64, np.float32), fits(address)
        target = fits(out.__array_interface__["data"][0])
        _chumoku.attention_forward(options, good, good, good, None, None, target, None)
        bad = [
            fits(address + 1), fits(0), fits(2**64 - 8), fits(address, (1, 1, 2**62, 4)), fits(address, (2**32, 2**32, 2, 4)),
            fits(address, strides=(2**62, 2**62, 2**62, 1)), fits(address, strides=(8, 8, 4, 2)), fits(address, (1, 2, 4), (8, 4, 1)),
            fits(address, (1, 1, 2, 4), (8, 8, 4)), fits(address, name="int32"), fits(address, (1, 1, 2, 5)), (address,), None, 3,
            fits(-1), fits(address, (-1, 1, 2, 4)), fits(2**64), fits(address, (2, 1, 1, 4), (-8, 8, 4, 1)),
        ]
        for one in bad:
            for at in range(4):
                arguments = [good, good, good, None, None, target, None]
                arguments[(0, 1, 2, 5)[at]] = one
                try:
                    _chumoku.attention_forward(options, *arguments)
                except REFUSED:
                    refused += 1
                else:
                    raise AssertionError((one, at))
        # An output may not overlap an input.
        try:
            _chumoku.attention_forward(options, good, good, good, None, None, fits(address + 16), None)
        except ValueError as error:
            assert "overlap" in str(error)
        else:
            raise AssertionError("overlap")
        print(refused)
        """,
        0,
    )
    assert int(said) > 200


@pytest.mark.parametrize("seed", range(2))
def test_random_tensors(seed):
    pytest.importorskip("torch")
    said = run(
        """
        import torch
        import torch.nn.functional as F
        import chumoku.torch
        torch.manual_seed(int(sys.argv[1]))
        REFUSED = (*REFUSED, RuntimeError, NotImplementedError, IndexError)

        def tensor(shape, dtype):
            room = torch.randn(4 * math.prod(shape) + 64)
            if not dtype.is_floating_point:
                return (room[: math.prod(shape)] > 0).reshape(shape).to(dtype)
            x = room[: math.prod(shape)].reshape(shape).to(dtype)
            how = rng.integers(8)
            if how == 0 and len(shape) > 1:
                return x.transpose(-1, -2).contiguous().transpose(-1, -2)
            if how == 1 and len(shape) > 2:
                return x.transpose(1, -2).contiguous().transpose(1, -2)
            if how == 2:
                return torch.cat([x, x], -1)[..., : shape[-1]] if shape else x
            if how == 3:
                return torch.stack([x, x], -1)[..., 0]
            if how == 4 and shape:
                return x[:1].expand(shape)
            if how == 5:
                return room.to(dtype).as_strided(shape, [int(rng.integers(0, 4)) for _ in shape])
            if how == 6:
                return x.requires_grad_()
            return x

        answered = refused = 0
        for _ in range(600):
            dtype = pick(*[torch.float32, torch.float64, torch.bfloat16, torch.float16] * 4, torch.int64, torch.bool, torch.complex64)
            before = [int(n) for n in rng.integers(1, 4, rng.integers(0, 4))]
            queries, keys, width, of_value = (int(n) for n in rng.integers(0, 30, 4))
            off = lambda n: n if rng.random() < 0.98 else n + 1
            q = tensor((*before, queries, max(1, width)), dtype)
            k = tensor((*before, off(keys), off(max(1, width))), pick(*[dtype] * 9, torch.float32))
            v = tensor((*before, off(keys), max(1, pick(width, width, of_value))), k.dtype)
            mask = None
            if rng.random() < 0.3:
                shape = pick((queries, keys), (*before, queries, keys), (1, keys), (keys,), (queries, keys + 1))
                mask = tensor(shape, pick(torch.bool, dtype, torch.float32, torch.int64))
            options = {"dropout_p": pick(*[0.0] * 8, 0.5, 1.0, -1.0), "is_causal": bool(rng.integers(2)) and mask is None, "scale": pick(None, None, 0.3)}
            try:
                found = chumoku.scaled_dot_product_attention(q, k, v, mask, **options)
                if found.requires_grad:
                    found.float().sum().backward()
            except REFUSED as error:
                assert str(error)
                refused += 1
                continue
            answered += 1
            assert found.shape == (*torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2]), queries, v.shape[-1])
            if options["dropout_p"] == 0 and mask is None and keys and dtype in (torch.float32, torch.float64):
                expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), **options)
                tolerance = 1e-5 * (1 + expected.abs().max().item()) if expected.numel() else 1
                assert expected.numel() == 0 or (found.double() - expected).abs().max() < tolerance
        print(answered, refused)
        """,
        seed,
    )
    answered, refused = map(int, said.split())
    assert answered > 150 and refused > 50
