"""Records one reference case: inputs, parameters, outputs and gradients, as one safetensors file.

A case is a function that takes a `Case` and computes with PyTorch. It is run twice on the same numbers: in float64,
which is what the file keeps, and in float32, which shows how near an f32 implementation can be expected to come.
"""

import json
import struct
import zlib

import numpy as np
import torch
from safetensors.numpy import load, save

SEED = 20251121


class Case:
    """What a case function reads its numbers from and writes its results to.

    Numbers come from a generator keyed by the case's name, so adding a case changes no other. Every number is rounded
    to f32 before it is used: a float64 computation then starts from exactly what the file holds.
    """

    def __init__(self, name, dtype):
        self.name, self.dtype = name, dtype
        self.random = np.random.default_rng([SEED, zlib.crc32(name.encode())])
        self.tensors, self.leaves, self.attributes = {}, {}, {}

    # Numbers

    def normal(self, *shape, scale=1.0):
        return self.random.standard_normal(shape) * scale

    def uniform(self, *shape, bound):
        return self.random.uniform(-bound, bound, shape)

    def integers(self, high, *shape):
        return self.random.integers(0, high, shape)

    # What goes in

    def input(self, name, values, gradient=True):
        """An f32 input; its gradient is recorded as `grad.in.NAME` unless told otherwise."""
        return self._leaf(f"in.{name}", values, gradient)

    def param(self, name, values):
        return self._leaf(f"param.{name}", values, True)

    def integer_input(self, name, values):
        """Ids, labels and offsets (I64)."""
        self.tensors[f"in.{name}"] = np.asarray(values, np.int64)
        return torch.tensor(self.tensors[f"in.{name}"])

    def mask_input(self, name, values):
        """A boolean mask (U8: 1 = attend)."""
        self.tensors[f"in.{name}"] = np.asarray(values, np.uint8)
        return torch.tensor(self.tensors[f"in.{name}"]).bool()

    def module(self, module, prefix=""):
        """Gives every parameter of a torch module fresh numbers, none of them zero or one, and records it.

        PyTorch starts biases at zero and norm weights at one, which would hide a bias that is never added. What starts at
        one stays near it.
        """
        module = module.to(self.dtype).train()
        for name, parameter in module.named_parameters():
            shape = tuple(parameter.shape)
            starts_at_one = ("norm" in name and name.endswith("weight")) or name.endswith("beta")
            bound = shape[-1] ** -0.5 if len(shape) > 1 else 0.3
            values = self.uniform(*shape, bound=bound) + (1.0 if starts_at_one else 0.0)
            key = f"param.{prefix}{name}"
            with torch.no_grad():
                parameter.copy_(self._record(key, values))
            self.leaves[key] = parameter
        return module

    def attribute(self, **attributes):
        """Settings of the case, kept as strings in the file's metadata."""
        self.attributes.update({key: str(value).lower() for key, value in attributes.items()})

    # What comes out

    def output(self, name, tensor):
        """A result (F64, or I64 for indices)."""
        self.tensors[f"out.{name}"] = tensor.detach().clone().numpy()

    def backward(self, tensor):
        """Draws the upstream gradient `in.dout` and records the gradient of sum(tensor · dout) for every leaf."""
        tensor.backward(self._record("in.dout", self.normal(*tensor.shape)))
        self.gradients()

    def gradients(self):
        """Records the gradients that the leaves hold by now."""
        for key, leaf in self.leaves.items():
            gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
            self.tensors[f"grad.{key}"] = gradient.detach().clone().numpy()

    def _record(self, key, values):
        self.tensors[key] = np.asarray(values, np.float64).astype(np.float32)
        return torch.tensor(self.tensors[key]).to(self.dtype)

    def _leaf(self, key, values, gradient):
        leaf = self._record(key, values)
        if gradient:
            self.leaves[key] = leaf.requires_grad_()
        return leaf


def to_bytes(tensors, attributes):
    """Safetensors bytes that are the same on every run: the library writes the metadata in random order."""
    data = save({key: np.ascontiguousarray(value) for key, value in tensors.items()}, metadata=attributes)
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    data = struct.pack("<Q", len(text)) + text + data[8 + size :]
    assert all(np.array_equal(value, tensors[key], equal_nan=True) for key, value in load(data).items())
    return data


def distance(got, want):
    """Largest |got - want| as a part of the largest |want|; infinities must be equal. See README.md, "Tolerance"."""
    infinite = np.isinf(want)
    assert np.array_equal(got[infinite], want[infinite]), "infinities differ"
    got, want = got[~infinite].astype(np.float64), want[~infinite].astype(np.float64)
    error = np.abs(got - want).max(initial=0.0)
    assert np.isfinite(error), "not a number"
    return error / np.abs(want).max() if error else 0.0
