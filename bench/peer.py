#!/usr/bin/env python3
"""Times llama.cpp or ik_llama.cpp through its C API: one process, one JSON line.

    peer.py llama|ik MODEL.gguf [--tests pp512,tg128,pp512@d4096,tg128@d4096,rows4]
            [--threads 2] [--fa 0|1] [--rtr 0|1] [--repeats 1]

The C structures come from the ctypes files of the Python packages `llama-cpp-python` (its
source archive holds llama.cpp's source too) and `ik-llama-cpp-python`, whose folders
PEER_LLAMA_PACKAGE and PEER_IK_PACKAGE name; the libraries that are timed are named by
LLAMA_CPP_LIB_PATH (a folder) and, where not the package's own, IK_LLAMA_CPP_LIB_PATH.
Prints {"peer", "flags", "load_s", "first_token_s", "peak_bytes", "seconds": {test: [..]}}.
`rowsN` is a pass over N rows at depth 0 with logits of each.
"""

import argparse
import ctypes
import importlib
import json
import os
import random
import resource
import sys
import time
import types


def bindings(package, name, module):
    """The module of a package whose __init__ (and what that wants) is passed over."""
    parent = types.ModuleType(name)
    parent.__path__ = [package]
    sys.modules[name] = parent
    return importlib.import_module(f"{name}.{module}")


class Peer:
    def __init__(self, kind, model, threads, context, fa, rtr):
        if kind == "llama":
            self.api = bindings(os.environ["PEER_LLAMA_PACKAGE"], "llama_cpp", "llama_cpp")
        else:
            self.api = bindings(os.environ["PEER_IK_PACKAGE"], "ik_llama_cpp", "_ctypes_api")
        self.kind = kind
        api = self.api
        self.quiet()
        api.llama_backend_init()
        params = api.llama_model_default_params()
        if kind == "ik":
            params.repack_tensors = bool(rtr)
            if rtr:
                params.use_mmap = False  # repacking writes into the weights
        start = time.perf_counter()
        self.model = api.llama_model_load_from_file(model.encode(), params)
        if not self.model:
            sys.exit(f"peer.py: {model}: {kind} cannot load it")
        context_params = api.llama_context_default_params()
        context_params.n_ctx = context
        context_params.n_batch = context_params.n_ubatch = 512
        context_params.n_threads = context_params.n_threads_batch = threads
        if kind == "ik":
            context_params.flash_attn = bool(fa)
        else:
            context_params.flash_attn_type = 1 if fa else 0
        self.context = api.llama_init_from_model(self.model, context_params)
        if not self.context:
            sys.exit(f"peer.py: {model}: {kind} makes no context of {context}")
        self.load_s = time.perf_counter() - start
        vocab = api.llama_model_get_vocab(self.model)
        self.n_vocab = api.llama_vocab_n_tokens(vocab)
        self.batch = api.llama_batch_init(512, 0, 1)
        self.random = random.Random(1)

    def quiet(self):
        log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
        self.callback = log(lambda level, text, data: None)
        library = getattr(self.api, "_lib", None) or getattr(self.api, "_LIB", None)
        if library is not None and hasattr(library, "llama_log_set"):
            library.llama_log_set(self.callback, None)
        self.library = library

    def clear_from(self, position):
        if self.kind == "ik":
            remove = self.library.llama_kv_cache_seq_rm
            remove.argtypes = [ctypes.c_void_p] + [ctypes.c_int32] * 3
            remove.restype = ctypes.c_bool
            remove(self.context, 0, position, -1)
        else:
            memory = self.api.llama_get_memory(self.context)
            self.api.llama_memory_seq_rm(memory, 0, position, -1)

    def run(self, first, count, all_logits=False):
        """`count` tokens from position `first` on, in one batch."""
        batch = self.batch
        batch.n_tokens = count
        for i in range(count):
            batch.token[i] = self.random.randrange(self.n_vocab)
            batch.pos[i] = first + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = int(all_logits or i == count - 1)
        if self.api.llama_decode(self.context, batch) != 0:
            sys.exit("peer.py: llama_decode failed")
        self.library.llama_synchronize(ctypes.c_void_p(self.context))

    def fill(self, depth):
        for first in range(0, depth, 512):
            self.run(first, min(512, depth - first))

    def time(self, name, depth):
        kind, count = name.rstrip("0123456789"), int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))
        self.clear_from(depth)
        start = time.perf_counter()
        if kind == "tg":
            for i in range(count):
                self.run(depth + i, 1)
        elif kind == "pp":
            for first in range(0, count, 512):
                self.run(depth + first, min(512, count - first))
        else:
            self.run(depth, count, all_logits=True)
        return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=["llama", "ik"])
    parser.add_argument("model")
    parser.add_argument("--tests", default="pp512,tg128")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fa", type=int, default=1)
    parser.add_argument("--rtr", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()
    tests = []
    for test in args.tests.split(","):
        name, _, depth = test.partition("@d")
        tests.append((test, name, int(depth or 0)))
    tests.sort(key=lambda t: t[2])
    deepest = max(t[2] + int(t[1].lstrip("abcdefghijklmnopqrstuvwxyz")) for t in tests)
    start = time.perf_counter()
    context = (deepest + 255) // 256 * 256
    peer = Peer(args.peer, args.model, args.threads, max(context, 512), args.fa, args.rtr)
    peer.run(0, 1)
    first_token_s = time.perf_counter() - start
    seconds = {}
    filled = 0
    for test, name, depth in tests:
        if depth > filled:
            peer.clear_from(0)
            peer.fill(depth)
            filled = depth
        warm = "tg8" if name.startswith("tg") else "rows2" if name.startswith("rows") else "pp32"
        peer.time(warm, depth)
        seconds[test] = [peer.time(name, depth) for _ in range(args.repeats)]
    print(json.dumps({
        "peer": args.peer,
        "flags": f"fa {args.fa} rtr {args.rtr}" if args.peer == "ik" else f"fa {args.fa}",
        "load_s": peer.load_s,
        "first_token_s": first_token_s,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "seconds": seconds,
    }))


if __name__ == "__main__":
    main()
