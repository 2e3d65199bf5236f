"""Ops that choose: experts for a token, keys for a query.  Ties go to the lowest index."""
import numpy as np

from reference.activations import sigmoid, softmax

__all__ = ["route", "expert_matmul", "combine_experts", "select_keys"]


def largest(values, k):
    """Indices of the k largest of the last axis, best first."""
    return np.argsort(-values, axis=-1, kind="stable")[..., :k]


def kept_groups(ranks, n_groups, n_used):
    """ranks with -inf outside the groups whose two best sum highest (architectures-more.md 2.1)."""
    n, n_experts = ranks.shape
    grouped = ranks.reshape(n, n_groups, n_experts // n_groups)
    sums = np.sort(grouped, axis=2)[:, :, -2:].sum(axis=2)
    kept = np.zeros((n, n_groups), bool)
    np.put_along_axis(kept, largest(sums, n_used), True, axis=1)
    return np.where(kept[:, :, None], grouped, -np.inf).reshape(n, n_experts)


def route(logits, n_used, score="softmax", bias=None, n_groups=1, n_groups_used=1, normalise=False,
          normalise_eps=0.0, scale=1.0):
    """(experts [n, n_used] ascending, their weights); logits: [n, n_experts].

    score: softmax of all logits, softmax_chosen of the chosen alone, sigmoid of each.  The bias
    decides which are chosen, not how much they count."""
    scores = {"softmax": softmax, "softmax_chosen": np.asarray, "sigmoid": sigmoid}[score](logits)
    ranks = scores if bias is None else scores + bias
    if n_groups > 1:
        ranks = kept_groups(ranks, n_groups, n_groups_used)
    experts = np.sort(largest(ranks, n_used), axis=1).astype(np.int32)
    weights = np.take_along_axis(scores, experts, axis=1)
    if score == "softmax_chosen":
        weights = softmax(weights)
    if normalise:
        weights = weights / (weights.sum(axis=1, keepdims=True) + normalise_eps)
    return experts, weights * scale


def expert_matmul(x, matrices, experts, biases=None):
    """[n * n_used, n_rows]: row t * n_used + i is matrices[experts[t, i]] times row t of x, or
    times row t * n_used + i where x has as many rows as the result."""
    n, n_used = experts.shape
    flat = experts.reshape(-1)
    rows = x if len(x) == n * n_used else np.repeat(x, n_used, axis=0)
    out = np.zeros((n * n_used, len(matrices[0])))
    for e in np.unique(flat):
        out[flat == e] = rows[flat == e] @ matrices[e].T
        if biases is not None:
            out[flat == e] += biases[e]
    return out


def combine_experts(y, weights):
    """[n, .]: the sum of each token's rows of y [n * n_used, .], each times its weight."""
    n, n_used = weights.shape
    return (y.reshape(n, n_used, y.shape[1]) * weights[:, :, None]).sum(axis=1)


def select_keys(q, k, weights, positions, key_positions, n_heads, top_k, scale):
    """[n, m] bool: the top_k keys at or before each row with the largest
    sum over heads of weights[t, h] * relu(q[t, h] . k[j] * scale); all where there are fewer.

    q: [n, n_heads * head_dim], k: [m, head_dim], weights: [n, n_heads] (architectures.md 16)"""
    n, m = len(q), len(k)
    products = np.matmul(q.reshape(n, n_heads, -1), k.T) * scale  # [n, n_heads, m]
    scores = (weights[:, :, None] * np.maximum(products, 0)).sum(axis=1)
    before = np.asarray(key_positions)[None, :] <= np.asarray(positions)[:, None]
    scores = np.where(before, scores, -np.inf)
    chosen = np.zeros((n, m), bool)
    np.put_along_axis(chosen, largest(scores, top_k), True, axis=1)
    return chosen & before
