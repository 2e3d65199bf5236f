"""Ops on single values and on rows of logits."""
import math

import numpy as np

__all__ = ["softmax", "silu", "sigmoid", "softplus", "gelu_tanh", "gelu_erf", "activation",
           "gated_activation"]


def softmax(x):
    """Over the last axis; -inf takes no part."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def sigmoid(x):
    e = np.exp(-np.abs(x))  # never above 1
    return np.where(x < 0, e / (1 + e), 1 / (1 + e))


def softplus(x):
    """log(1 + e^x); past 20 it is x to float32's last bit, and the reference says so (11.5)."""
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))


def silu(x):
    return x * sigmoid(x)


def gelu_tanh(x):
    """gelu_pytorch_tanh, and gpt2's gelu_new: the same formula in exact arithmetic (3)."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))


ACTIVATIONS = {"silu": silu, "sigmoid": sigmoid, "gelu_tanh": gelu_tanh, "gelu_erf": gelu_erf}


def activation(x, kind):
    return ACTIVATIONS[kind](x)


def gated_activation(gate_up, kind, limit=0.0, alpha=1.0):
    """act(gate) * up; gate_up: [n, 2 * width], gate first (2.5).  With limit > 0 gpt-oss's form
    (10), in which the gate is only held from above."""
    gate, up = np.split(gate_up, 2, axis=-1)
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        return (up + 1) * gate * sigmoid(alpha * gate)
    return activation(gate, kind) * up
