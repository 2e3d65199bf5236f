"""A layer's second half: one MLP, or a router and experts, one expert after the other
(architectures.md 2.5, 2.6, 10, 11.6, 15; architectures-more.md 2.1)."""
import numpy as np

from reference import quant


def mlp(model, x, p, kind="silu"):
    """gate_proj, up_proj and down_proj under p; phi3 keeps the first two in one matrix."""
    if p + "gate_up_proj.weight" in model.weights:
        gate_up = model.linear(x, p + "gate_up_proj")
    else:
        gate_up = np.concatenate(
            [model.linear(x, p + "gate_proj"), model.linear(x, p + "up_proj")], axis=1)
    return model.linear(model.ops.gated_activation(gate_up, kind), p + "down_proj")


def feed_forward(model, x, p):
    """p: the prefix of the layer.  It has experts where it has a router."""
    for home, router in (("mlp.", "gate"), ("mlp.", "router"), ("block_sparse_moe.", "gate")):
        if p + home + router + ".weight" in model.weights:
            return with_shared(model, x, p + home, routed(model, x, p + home, router))
    return mlp(model, x, p + "mlp.")


def routing(config):
    """How the family chooses experts and weighs them, as arguments of ops.route."""
    kind, n = config["model_type"], config["num_experts_per_tok"]
    if kind == "gpt_oss":
        return dict(n_used=n, score="softmax_chosen")
    if kind in ("mixtral", "qwen3_5_moe_text"):
        return dict(n_used=n, normalise=True)
    if kind in ("qwen3_moe", "qwen3_next"):
        return dict(n_used=n, normalise=config.get("norm_topk_prob", kind == "qwen3_next"))
    if kind == "minimax_m2":
        return dict(n_used=n, score="sigmoid", normalise=True)
    return dict(n_used=n, score="sigmoid", normalise=config.get("norm_topk_prob", True),
                normalise_eps=1e-20, n_groups=config.get("n_group") or 1,
                n_groups_used=config.get("topk_group") or 1,
                scale=config.get("routed_scaling_factor", 1.0))


def routed(model, x, p, router):
    """The sum of each token's experts, each by its weight."""
    o = model.ops
    bias = model.weights.get(p + "gate.e_score_correction_bias",
                             model.weights.get(p + "e_score_correction_bias"))
    logits = model.linear(x, p + router)
    experts, weights = o.route(logits, bias=bias, **routing(model.config))
    input, down = expert_matrices(model, p + "experts.", logits.shape[1])
    gate_up = o.expert_matmul(x, *input[:1], experts, *input[1:])
    kind, c = model.config["model_type"], model.config
    limits = (c.get("swiglu_limit", 7.0), c.get("swiglu_alpha", 1.702)) if kind == "gpt_oss" else ()
    inner = o.gated_activation(gate_up, "silu", *limits)
    return o.combine_experts(o.expert_matmul(inner, *down[:1], experts, *down[1:]), weights)


def expert_matrices(model, p, n):
    """((gate over up, biases?), (down, biases?)), a matrix [out, in] an expert."""
    w = model.weights
    if model.config["model_type"] == "gpt_oss":
        return interleaved_experts(model, p)
    if p + "gate_up_proj" in w:  # [n_experts, 2 * width, hidden], gate first
        return (w[p + "gate_up_proj"],), (w[p + "down_proj"],)
    gate, up, down = ("w1", "w3", "w2") if p + "0.w1.weight" in w else ("gate_proj", "up_proj", "down_proj")
    gate_up = [np.concatenate([w[p + f"{e}.{gate}.weight"], w[p + f"{e}.{up}.weight"]]) for e in range(n)]
    return (gate_up,), ([w[p + f"{e}.{down}.weight"] for e in range(n)],)


def interleaved_experts(model, p):
    """gpt_oss (10): gate and up rows in turn, each with a bias; [in, out], or four-bit blocks of
    [out, in]."""
    w, halves = model.weights, []
    for name in ("gate_up_proj", "down_proj"):
        if p + name in w:
            matrices = w[p + name].swapaxes(1, 2)
        else:
            matrices = quant.mxfp4_blocks(w[p + name + "_blocks"], w[p + name + "_scales"])
        halves.append([matrices, w[p + name + "_bias"]])
    halves[0] = [np.concatenate([part[:, 0::2], part[:, 1::2]], axis=1) for part in halves[0]]
    return halves


def with_shared(model, x, p, out):
    """Adds the expert that every token meets: as it is, or behind a gate of its own (11.6)."""
    if p + "shared_experts.down_proj.weight" in model.weights:
        return model.ops.add(out, mlp(model, x, p + "shared_experts."))
    if p + "shared_expert.down_proj.weight" in model.weights:
        gate = model.linear(x, p + "shared_expert_gate")
        return model.ops.add_gated(out, mlp(model, x, p + "shared_expert."), gate)
    return out
