"""A real model's hidden states and logits beside the NumPy reference's.

    python -m tests.tools.compare_gguf INGOT MODEL.gguf [--tokens 40]

Takes 8 bytes of memory a weight.  In float32 mode the two agree to rounding; exits 1 past 1e-3.
"""
import argparse
import pathlib
import sys
import tempfile

import numpy as np

from reference import gguf_model
from tests import parity

SEED = 3
TOLERANCE = 1e-3  # of logits, whose spread is 2 to 13 in the models tried


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ingot")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=40)
    args = parser.parse_args()
    model = gguf_model.load(args.model)
    vocabulary = len(model.weights["embed_tokens.weight"])
    prompt = np.random.default_rng(SEED).integers(3, min(vocabulary, 30000), args.tokens).tolist()
    wanted = parity.numpy_values(model, [prompt])
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in {"float32": parity.F32, "default": ()}.items():
            found = parity.eval_logits(args.ingot, args.model, [prompt], folder, *flags)
            error = np.abs(found["logits.0"] - wanted["logits.0"]).max()
            same = np.mean(found["logits.0"].argmax(1) == wanted["logits.0"].argmax(1))
            print(f"{name} mode: logits differ by at most {error:.1e} (spread "
                  f"{wanted['logits.0'].std():.1f}), {same:.0%} of the best tokens equal")
            if name == "float32" and not error < TOLERANCE:
                sys.exit(1)


if __name__ == "__main__":
    main()
