"""The head that predicts the token after the next (architectures.md 13, 15;
architectures-more.md 3.1), and its chained drafts."""
import dataclasses

import numpy as np

# Chain the raw output of the head's layer, not the normed one (15).
CHAINS_RAW = {"deepseek_v3", "deepseek_v32"}


@dataclasses.dataclass
class Names:
    embed_norm: str
    hidden_norm: str
    project: str
    layer: str
    final_norm: str


def names_of(model):
    if "mtp.fc.weight" in model.weights:
        return Names("mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc", "mtp.layers.0.",
                     "mtp.norm")
    p = f"layers.{model.config['num_hidden_layers']}."
    if p + "eh_proj.weight" not in model.weights:
        raise ValueError("the checkpoint has no MTP head")
    return Names(p + "enorm", p + "hnorm", p + "eh_proj", p, p + "shared_head.norm")


class Mtp:
    """One sequence: rows appended to `inputs` and run through the head's layer from the start."""

    def __init__(self, model):
        self.model, self.names = model, names_of(model)

    def inputs(self, tokens, hidden):
        """Row t: of the token after slot t and the hidden state of slot t, after the final norm."""
        m, n = self.model, self.names
        table = m.weights.get(n.layer + "embed_tokens.weight", m.w("embed_tokens.weight"))
        e = m.norm(m.ops.embed(table, np.asarray(tokens)), n.embed_norm)
        h = m.norm(hidden, n.hidden_norm)
        return m.linear(np.concatenate([e, h], axis=1), n.project)

    def rows(self, inputs):
        """(logits, what the next draft reads) of every row."""
        m, n = self.model, self.names
        m.selection = None  # of keys: the head's own, or none
        y = m.layer(inputs, n.layer, "full_attention")
        d = m.norm(y, n.final_norm)
        head = m.weights.get(n.layer + "shared_head.head.weight")
        logits = m.logits(d) if head is None else m.ops.matmul(d, head)
        return logits, y if m.config["model_type"] in CHAINS_RAW else d

    def drafts(self, inputs, n):
        """(n tokens, their logits [n, vocab_size]): the last row's choice, then each by the row
        made of the one before it."""
        tokens, logits = [], []
        for i in range(n):
            every, carried = self.rows(inputs)
            tokens.append(self.model.ops.argmax(every[-1]))
            logits.append(every[-1])
            inputs = np.concatenate([inputs, self.inputs(tokens[-1:], carried[-1:])])
        return tokens, np.stack(logits)
