"""A model hub on 127.0.0.1 that misbehaves on request (formats.md 7.1).  Standard library only.

    with Hub({"model-Q8_0.gguf": data}) as hub:
        hub.fault("model-Q8_0.gguf", drop(1000))     # for the next request of that file
        ... HF_ENDPOINT=hub.url ...

The hub is two servers: "home" knows the repository and redirects large files to "cdn", another
port, as the real one does.  Each request is noted in hub.requests.  A fault is a function
(handler, data) -> True when it has answered; faults of a file are used up one a GET.
"""

import hashlib
import http.server
import json
import re
import socket
import struct
import threading
import time
import urllib.parse
from collections import defaultdict, namedtuple

Request = namedtuple("Request", "server method path headers")
LARGE = 4096  # bytes from which a file is kept as LFS


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def note(self, method):
        hub = self.server.hub
        hub.requests.append(Request(self.server.role, method, self.path, dict(self.headers)))

    def do_HEAD(self):
        self.note("HEAD")
        self.server.hub.answer(self)

    def do_GET(self):
        self.note("GET")
        try:
            self.server.hub.answer(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def send(self, status, body=b"", headers=None, length=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def hang_up(self):
        self.wfile.flush()
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def wanted_range(self, data, etag):
        """(first, status) for the Range header, obeying If-Range."""
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not match or self.headers.get("If-Range", f'"{etag}"') != f'"{etag}"':
            return 0, 200
        first = int(match.group(1))
        return (first, 206) if first < len(data) else (first, 416)

    def send_file(self, data, etag, headers=None):
        first, status = self.wanted_range(data, etag)
        headers = dict(headers or {}, ETag=f'"{etag}"')
        if status == 416:
            self.send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        if status == 206:
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        self.send(status, data[first:], headers)


# ---- faults ---------------------------------------------------------------------------
def drop(after):
    """Promises the whole rest and hangs up after so many bytes of it."""
    def fault(handler, data):
        first, status = handler.wanted_range(data, handler.etag)
        headers = {"ETag": f'"{handler.etag}"'}
        if status == 206:
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        handler.send(status, data[first:first + after], headers, length=len(data) - first)
        handler.hang_up()
        return True
    return fault


def answer(status, headers=None, body=b"no"):
    def fault(handler, data):
        handler.send(status, body, headers)
        return True
    return fault


def says(length=None, content_range=None, status=None, body=None, chunked=False):
    """An answer whose numbers are the caller's."""
    def fault(handler, data):
        first, real_status = handler.wanted_range(data, handler.etag)
        sent = data[first:] if body is None else body
        handler.send_response(status or real_status)
        if content_range != "":
            text = content_range or (real_status == 206 and f"bytes {first}-{len(data) - 1}/{len(data)}")
            if text:
                handler.send_header("Content-Range", text)
        if chunked:
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            for at in range(0, len(sent), 50000):
                part = sent[at:at + 50000]
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.send_header("Content-Length", str(len(sent) if length is None else length))
            handler.end_headers()
            handler.wfile.write(sent)
            handler.hang_up()
        return True
    return fault


def corrupt(at=-1):
    """The right number of bytes, one of them wrong."""
    def fault(handler, data):
        wrong = bytearray(data)
        wrong[at] ^= 1
        handler.send_file(bytes(wrong), handler.etag)
        return True
    return fault


def trickle(bytes_a_second, pause=0.05):
    def fault(handler, data):
        first, status = handler.wanted_range(data, handler.etag)
        headers = {"ETag": f'"{handler.etag}"'}
        if status == 206:
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        handler.send(status, b"", headers, length=len(data) - first)
        step = max(1, int(bytes_a_second * pause))
        for at in range(first, len(data), step):
            if handler.server.hub.closing:
                break
            handler.wfile.write(data[at:at + step])
            handler.wfile.flush()
            time.sleep(pause)
        return True
    return fault


def stall(after):
    """Sends so many bytes, then nothing, with the connection open."""
    def fault(handler, data):
        first, _ = handler.wanted_range(data, handler.etag)
        handler.send(200, data[first:first + after], {}, length=len(data) - first)
        handler.server.hub.wait_closing(60)
        handler.close_connection = True
        return True
    return fault


def redirect(to):
    def fault(handler, data):
        handler.send(302, b"", {"Location": to})
        return True
    return fault


# ---- the hub --------------------------------------------------------------------------
class Hub:
    def __init__(self, files, repo="org/model", commit="c" * 40, token=None, blobs=True,
                 siblings=True, page=1000):
        self.repo, self.commit, self.token = repo, commit, token
        self.files, self.blobs, self.siblings, self.page = dict(files), blobs, siblings, page
        self.revisions = {"main"}
        self.requests, self.faults, self.api_faults = [], defaultdict(list), []
        self.always, self.closing, self.closed = {}, False, threading.Event()
        self.redirect_large = True
        self.servers = {}

    def __enter__(self):
        for role in ("home", "cdn"):
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            server.daemon_threads, server.hub, server.role = True, self, role
            self.servers[role] = server
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closing = True
        self.closed.set()
        for server in self.servers.values():
            server.shutdown()
            server.server_close()

    def wait_closing(self, seconds):
        self.closed.wait(seconds)

    def address(self, role):
        return "http://127.0.0.1:%d" % self.servers[role].server_address[1]

    @property
    def url(self):
        return self.address("home")

    def fault(self, path, *faults):
        self.faults[path].extend(faults)

    def gets(self, path):
        """The GET requests that asked for the bytes of a file, where they were answered."""
        role = "cdn" if self.is_large(path) else "home"
        return [r for r in self.requests if r.method == "GET" and r.server == role and
                urllib.parse.unquote(r.path.split("?")[0]).endswith("/" + path)]

    def is_large(self, path):
        return self.redirect_large and len(self.files[path]) >= LARGE

    def answer(self, handler):
        path = urllib.parse.unquote(urllib.parse.urlsplit(handler.path).path)
        if handler.server.role == "cdn":
            self.answer_bytes(handler, path.removeprefix("/blob/"))
        elif self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
            code = 403 if "Authorization" in handler.headers else 401
            handler.send(code, b"gated", {"X-Error-Code": "GatedRepo"})
        elif path.startswith("/api/models/"):
            self.answer_api(handler, path.removeprefix("/api/models/"))
        else:
            self.answer_resolve(handler, path.removeprefix("/"))

    def answer_api(self, handler, path):
        if self.api_faults and self.api_faults.pop(0)(handler, b""):
            return
        if not path.startswith(self.repo + "/"):
            handler.send(404, b"", {"X-Error-Code": "RepoNotFound"})
            return
        kind, _, revision = path.removeprefix(self.repo + "/").partition("/")
        if revision not in self.revisions | {self.commit}:
            handler.send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        elif kind == "tree":
            self.answer_tree(handler)
        else:
            info = {"id": self.repo, "sha": self.commit}
            if self.siblings:
                info["siblings"] = [self.sibling(name) for name in self.files]
            handler.send(200, json.dumps(info).encode())

    def sibling(self, name):
        entry, data = {"rfilename": name}, self.files[name]
        if self.blobs:
            entry.update(size=len(data), blobId=git_sha1(data))
            if len(data) >= LARGE:
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        return entry

    def answer_tree(self, handler):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(handler.path).query)
        begin = int(query.get("cursor", ["0"])[0])
        entries = [{"type": "directory", "path": "onnx", "oid": "0" * 40, "size": 0}]
        for name, data in list(self.files.items())[begin:begin + self.page]:
            entry = {"type": "file", "path": name, "size": len(data), "oid": git_sha1(data)}
            if len(data) >= LARGE:
                entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data)}
            entries.append(entry)
        headers = {}
        if begin + self.page < len(self.files):
            headers["Link"] = (f'<{self.url}/api/models/{self.repo}/tree/{self.commit}'
                               f'?recursive=true&cursor={begin + self.page}>; rel="next"')
        handler.send(200, json.dumps(entries).encode(), headers)

    def answer_resolve(self, handler, path):
        prefix = f"{self.repo}/resolve/{self.commit}/"
        name = path.removeprefix(prefix)
        if not path.startswith(prefix) or name not in self.files:
            handler.send(404, b"", {"X-Error-Code": "EntryNotFound"})
        elif self.is_large(name):
            data = self.files[name]
            handler.send(302, b"", {
                "X-Repo-Commit": self.commit, "X-Linked-Size": str(len(data)),
                "X-Linked-Etag": '"%s"' % hashlib.sha256(data).hexdigest(),
                "Location": f"{self.address('cdn')}/blob/{urllib.parse.quote(name)}?Signature=secret"})
        else:
            self.answer_bytes(handler, name)

    def answer_bytes(self, handler, name):
        data = self.files[name]
        large = len(data) >= LARGE
        handler.etag = hashlib.md5(data).hexdigest() if large else git_sha1(data)
        headers = {"X-Repo-Commit": self.commit}
        if large and handler.server.role == "home":
            headers["X-Linked-Etag"] = '"%s"' % hashlib.sha256(data).hexdigest()
        if handler.command == "GET":
            fault = self.faults[name].pop(0) if self.faults[name] else self.always.get(name)
            if fault and fault(handler, data):
                return
        handler.send_file(data, handler.etag, headers)


# ---- tiny models ----------------------------------------------------------------------
def tiny_gguf(n_bytes=300_000, seed=1, split=None):
    """A valid GGUF of one float32 tensor; split=(number, count, tensors in all)."""
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()

    n_values = n_bytes // 4
    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    if split:
        no, count, n_tensors = split
        pairs = pairs if no == 0 else []
        pairs += [text("split.no") + struct.pack("<IH", 2, no),
                  text("split.count") + struct.pack("<IH", 2, count),
                  text("split.tensors.count") + struct.pack("<Ii", 5, n_tensors)]
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs)) + b"".join(pairs)
    head += text(f"t{split[0] if split else 0}.weight") + struct.pack("<IQIQ", 1, n_values, 0, 0)
    head += b"\0" * (-len(head) % 32)
    return head + noise(n_values * 4, seed)


def tiny_safetensors(name="model.embed_tokens.weight", n_bytes=80_000, seed=1):
    header = json.dumps({name: {"dtype": "F16", "shape": [n_bytes // 2],
                                "data_offsets": [0, n_bytes // 2 * 2]}}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + noise(n_bytes // 2 * 2, seed)


def noise(n_bytes, seed):
    """Bytes that repeat nowhere, the same in each run."""
    blocks = (hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(n_bytes // 32 + 1))
    return b"".join(blocks)[:n_bytes]
