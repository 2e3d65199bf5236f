"""The gated delta rule of the Qwen hybrids (architectures.md 11.5), token by token (12.1)."""
import numpy as np


def projections(model, x, p):
    """(q, k, v side by side as the convolution takes them, z, b, a): b and a have a column a
    value head."""
    c = model.config
    if p + "in_proj_qkv.weight" in model.weights:
        return [model.linear(x, p + name) for name in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")]
    # qwen3_next keeps the rows of one key head together (11.2).
    heads = c["linear_num_key_heads"]
    values = c["linear_num_value_heads"] // heads
    key, value = c["linear_key_head_dim"], values * c["linear_value_head_dim"]
    qkvz = model.ops.heads_of(model.linear(x, p + "in_proj_qkvz"), heads)
    q, k, v, z = (part.reshape(len(x), -1) for part in np.split(
        qkvz, np.cumsum([key, key, value]), axis=2))
    ba = model.ops.heads_of(model.linear(x, p + "in_proj_ba"), heads)
    b, a = (part.reshape(len(x), -1) for part in np.split(ba, 2, axis=2))
    return np.concatenate([q, k, v], axis=1), z, b, a


def linear_attention(model, x, p):
    c, o = model.config, model.ops
    key_heads, value_heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
    qkv, z, b, a = projections(model, x, p)
    qkv = o.short_conv(qkv, model.w(p + "conv1d.weight")[:, 0, :])
    decay = -np.exp(model.w(p + "A_log"))
    h = o.gated_delta(qkv, b, a, decay, model.w(p + "dt_bias"), key_heads, value_heads,
                      c["linear_key_head_dim"], c["linear_value_head_dim"])
    h = o.head_rms_norm(h, value_heads, model.w(p + "norm.weight"), c["rms_norm_eps"])
    return model.linear(o.multiply_activation(h, z, "silu"), p + "out_proj")
