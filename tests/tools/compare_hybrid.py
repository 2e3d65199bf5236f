"""The trained hybrid with its MTP head, against the goldens that came with it.

    python -m tests.tools.compare_hybrid hybrid-40m [--ingot BINARY]

hybrid-40m is too large to carry here (85 MB): a directory with model.safetensors and the
golden.safetensors that its README describes.  Compared: logits and hidden states of the last 8
prompt positions, 64 greedy tokens, the head's logits at those positions and 64 x 3 chained
drafts, by the NumPy reference; logits and greedy tokens also by the program.
"""
import argparse
import pathlib
import sys
import tempfile

import numpy as np

from reference import fixtures
from reference.model import Model
from reference.mtp import Mtp
from tests import parity

N_PROMPTS, N_LAYERS = 4, 12
TOLERANCE = 1e-3


def numpy_errors(model, golden, p, every):
    """{what: largest difference, or how many are wrong}; drafts after every so many tokens."""
    ids, answer = golden[f"{p}.ids"], golden[f"{p}.greedy"]
    n = len(ids)
    tokens = np.concatenate([ids, answer])
    hidden = model.hidden_states(tokens)[-1]
    wanted = golden[f"{p}.logits"]
    found = model.logits(hidden[n - len(wanted) :])
    errors = {"logits": np.abs(found[: len(wanted)] - wanted).max(),
              "hidden": np.abs(hidden[n - len(wanted) : n] - golden[f"{p}.hidden"]).max(),
              "greedy": int((found[len(wanted) - 1 : -1].argmax(1) != answer).sum())}
    head = Mtp(model)
    inputs = head.inputs(tokens[1:], hidden[:-1])  # row t reads token t + 1
    logits, _ = head.rows(inputs[:n])
    wanted = golden[f"{p}.mtp.logits"]
    errors["mtp logits"] = np.abs(logits[-len(wanted) :] - wanted).max()
    drafts = golden[f"{p}.mtp.drafts"]
    errors["drafts"] = sum(int((head.drafts(inputs[: n + k], 3)[0] != drafts[k]).sum())
                           for k in range(0, len(drafts), every))
    return errors


def program_errors(ingot, directory, golden, p, every):
    """The same; the drafts of a prompt follow its last row, which reads the program's own choice."""
    ids, answer = golden[f"{p}.ids"].tolist(), golden[f"{p}.greedy"].tolist()
    steps = range(0, len(answer), every)
    with tempfile.TemporaryDirectory() as folder:
        found = parity.eval_logits(ingot, directory, [ids + answer[:k] for k in steps], folder, "--mtp",
                                   *parity.F32)
    errors = {}
    for key, mine in (("logits", "logits.0"), ("mtp.logits", "mtp.logits.0"), ("hidden", f"hidden.0.{N_LAYERS}")):
        wanted = golden[f"{p}.{key}"]
        errors[key] = np.abs(found[mine][-len(wanted) :] - wanted).max()
    tokens = parity.greedy(ingot, directory, ids, len(answer), *parity.F32)
    errors["greedy"] = sum(a != b for a, b in zip(tokens, answer))
    errors["drafts"] = sum(int((found[f"mtp.draft.{i}"] != golden[f"{p}.mtp.drafts"][k]).sum())
                           for i, k in enumerate(steps))
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--ingot")
    parser.add_argument("--every", type=int, default=1, help="drafts after every so many tokens")
    args = parser.parse_args()
    golden, model = fixtures.golden(args.directory), Model(args.directory)
    worst = 0.0
    for p in (f"p{i}" for i in range(N_PROMPTS)):
        legs = {"NumPy": numpy_errors(model, golden, p, args.every)}
        if args.ingot:
            legs["ingot"] = program_errors(args.ingot, args.directory, golden, p, args.every)
        for leg, errors in legs.items():
            print(p, leg, ", ".join(f"{key} {value:.2g}" for key, value in errors.items()), flush=True)
            worst = max(worst, *errors.values())  # a wrong token counts 1
    sys.exit(int(worst > TOLERANCE))


if __name__ == "__main__":
    main()
