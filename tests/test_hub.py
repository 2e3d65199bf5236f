"""`ingot pull` against a hub that misbehaves (tests/tools/hub_server.py)."""

import json
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "tools"))
import hub_server as hub_mod  # noqa: E402
from hub_server import Hub, answer, corrupt, drop, redirect, says, stall, tiny_gguf, \
    tiny_safetensors, trickle  # noqa: E402
from store_tools import FILE, REF, TOKEN, failed, gguf_hub, pulled, store, wait_for  # noqa: E402, F401


# ---- what is fetched --------------------------------------------------------------------
def test_a_quantisation_is_pulled_and_listed(store, gguf_hub):
    done = store.pull("hf:org/model:q8_0", hub=gguf_hub)
    pulled(store, gguf_hub, done)
    entry = store.entry("tiny-Q8_0")
    assert entry["format"] == "gguf" and entry["quant"] == "F32"
    assert entry["source"] == f"hf:org/model@{gguf_hub.commit}:{FILE}"
    assert entry["size_bytes"] >= len(gguf_hub.files[FILE])
    assert entry["path"] == str(store.models / "tiny-Q8_0" / FILE)
    # A branch becomes a commit once; files are asked for by the commit.
    resolves = [r.path for r in gguf_hub.requests if "/resolve/" in r.path]
    assert resolves and all(f"/resolve/{gguf_hub.commit}/" in p for p in resolves)
    table = store.run("list")
    assert "tiny-Q8_0" in table.stdout and "gguf F32" in table.stdout and table.stderr == ""


def test_pulled_again_nothing_is_fetched(store, gguf_hub):
    assert store.pull(REF, hub=gguf_hub).returncode == 0
    n = len(gguf_hub.gets(FILE))
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    assert len(gguf_hub.gets(FILE)) == n
    # Offline, the store is enough; something else is refused.
    assert store.pull(REF, "--offline").returncode == 0
    failed(store.pull("hf:org/other", "--offline"), "offline", "hf:org/other")
    failed(store.pull("hf:org/other", HF_HUB_OFFLINE="1"), "offline")


def test_a_directory_takes_what_a_model_needs(store):
    index = {"metadata": {"total_size": 160_000},
             "weight_map": {"a": "model-00001-of-00002.safetensors",
                            "b": "model-00002-of-00002.safetensors"}}
    wanted = {
        "config.json": b'{"model_type": "llama"}',
        "generation_config.json": b"{}",
        "tokenizer.json": b'{"model": {}}',
        "tokenizer_config.json": b"{}",
        "chat_template.jinja": b"{{ messages }}",
        "model.safetensors.index.json": json.dumps(index).encode(),
        "model-00001-of-00002.safetensors": tiny_safetensors("a", seed=1),
        "model-00002-of-00002.safetensors": tiny_safetensors("b", seed=2),
    }
    other = {
        "pytorch_model.bin": b"pickle", "original/consolidated.00.pth": b"pickle",
        "onnx/model.onnx": b"onnx", "model.fp16.safetensors": tiny_safetensors("a"),
        "consolidated.safetensors": tiny_safetensors("a"), "run.py": b"import os",
        "adapter_model.safetensors": tiny_safetensors("c"), "README.md": b"#", ".gitattributes": b"",
        "unet/model.safetensors": tiny_safetensors("u"),
    }
    with Hub({**other, **wanted}) as hub:
        done = store.pull("hf:org/model", hub=hub)
        assert done.returncode == 0, done.stderr
        directory = store.models / "model"
        found = {p.name: p.read_bytes() for p in directory.iterdir() if p.name[0] != "."}
        assert found == wanted
        assert store.entry("model")["format"] == "safetensors"
        assert store.entry("model")["quant"] == "F16"
        fetched = {r.path.split("/")[-1].split("?")[0] for r in hub.requests if "/resolve/" in r.path}
        assert fetched == set(wanted)


QUANTS = {f"m-{q}.gguf": tiny_gguf(8192, seed=i) for i, q in
          enumerate(["Q4_K_M", "Q4_K_S", "Q4_K", "IQ4_K", "UD-Q5_K_M", "Q5_K_M", "F16", "BF16"])}
QUANTS.update({"mmproj-m-Q4_K.gguf": tiny_gguf(8192, seed=50), "m.imatrix.gguf": tiny_gguf(8192)})


@pytest.mark.parametrize("quant, file", [
    ("q4_k", "m-Q4_K.gguf"), ("Q4_K_M", "m-Q4_K_M.gguf"), ("f16", "m-F16.gguf"),
    ("bf16", "m-BF16.gguf"), ("m-UD-Q5_K_M.gguf", "m-UD-Q5_K_M.gguf")])
def test_a_quantisation_is_a_whole_word(store, quant, file):
    with Hub(QUANTS) as hub:
        pulled(store, hub, store.pull(f"hf:org/model:{quant}", hub=hub), file[:-5], file)


@pytest.mark.parametrize("selector, words", [
    ("Q5_K_M", ["2 files", "m-UD-Q5_K_M.gguf", "m-Q5_K_M.gguf", "hf:org/model:m-"]),
    ("Q9_9", ["no GGUF file of quantisation 'Q9_9'", "m-Q4_K_M.gguf"]),
    ("absent.gguf", ["no model file 'absent.gguf'"]),
    ("", ["8 GGUF models", "m-Q4_K_M.gguf", "hf:org/model:Q4_K_M"]),
])
def test_what_is_not_one_thing_lists_the_candidates(store, selector, words):
    with Hub(QUANTS) as hub:
        done = store.pull("hf:org/model" + (":" + selector if selector else ""), hub=hub)
        failed(done, *words)
        assert "mmproj" not in done.stderr


def test_all_parts_of_a_split_file(store):
    files = {f"Q4/big-Q4_0-0000{i + 1}-of-00003.gguf": tiny_gguf(20_000, i, (i, 3, 3))
             for i in range(3)}
    with Hub({**files, "small-Q8_0.gguf": tiny_gguf()}) as hub:
        done = store.pull("hf:org/model:q4_0", hub=hub)
        assert done.returncode == 0, done.stderr
        assert store.names() == ["big-Q4_0"]
        for path, data in files.items():
            assert store.bytes("big-Q4_0", path.split("/")[1]) == data
        assert store.entry("big-Q4_0")["path"].endswith("big-Q4_0-00001-of-00003.gguf")
    with Hub({k: v for k, v in files.items() if "00002-of" not in k}) as hub:
        failed(store.pull("hf:org/model:q4_0", "--as", "b", hub=hub), "part 2 of 3")


def test_pickled_weights_are_refused(store):
    with Hub({"config.json": b"{}", "pytorch_model.bin": b"x" * 9999}) as hub:
        failed(store.pull("hf:org/model", hub=hub), "pytorch_model.bin", ".safetensors or .gguf")


def test_an_index_that_names_an_absent_shard(store):
    index = {"weight_map": {"a": "model-00001-of-00001.safetensors"}}
    with Hub({"config.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode()}) as hub:
        failed(store.pull("hf:org/model", hub=hub), "model-00001-of-00001.safetensors", "lacks")
    index["weight_map"]["a"] = "../../../etc/evil.safetensors"
    with Hub({"config.json": b"{}", "model.safetensors.index.json": json.dumps(index).encode()}) as hub:
        failed(store.pull("hf:org/model", hub=hub), "bare .safetensors file name")
    assert store.names() == []


@pytest.mark.parametrize("path", ["../evil.gguf", "/etc/evil.gguf", "a/../../evil.gguf", "a\\evil.gguf",
                                  "C:evil.gguf", "a//evil.gguf", "nul\0.gguf"])
def test_a_path_that_leaves_the_folder(store, tmp_path, path):
    with Hub({path: tiny_gguf()}) as hub:
        failed(store.pull("hf:org/model", hub=hub), "plain relative path")
    assert not list(tmp_path.rglob("*evil*"))


@pytest.mark.parametrize("options", [{"blobs": False}, {"siblings": False, "page": 2}])
def test_listings_without_hashes_and_in_pages(store, options):
    files = {"a.txt": b"1", "b.txt": b"2", "c.txt": b"3", FILE: tiny_gguf(), "d.txt": b""}
    with Hub(files, **options) as hub:
        pulled(store, hub, store.pull(REF, hub=hub))
        assert ("HEAD" in {r.method for r in hub.requests}) == ("blobs" in options)


def test_a_revision_and_an_odd_file_name(store):
    name = "Zoë 模型 a'b#c%20.gguf"
    with Hub({name: tiny_gguf()}) as hub:
        hub.revisions = {"refs/pr/1"}
        done = store.pull("hf:org/model@refs/pr/1:" + name, "--as", "odd", hub=hub)
        pulled(store, hub, done, "odd", name)
        assert "/revision/refs%2Fpr%2F1?" in hub.requests[0].path


# ---- connections that break ---------------------------------------------------------------
def test_drops_are_resumed(store, gguf_hub):
    gguf_hub.fault(FILE, drop(100_000), drop(70_001), drop(60_000))
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    ranges = [r.headers.get("Range") for r in gguf_hub.gets(FILE)]
    assert ranges == [None, "bytes=100000-", "bytes=170001-", "bytes=230001-"]
    assert all("If-Range" in r.headers for r in gguf_hub.gets(FILE)[1:])


def test_an_unfinished_download_goes_on_in_the_next_process(store, gguf_hub):
    gguf_hub.fault(FILE, drop(100_000))
    failed(store.pull(REF, "--retries", 1, hub=gguf_hub), "connection broke", "goes on where")
    [partial] = store.partials()
    assert partial.stat().st_size == 100_000 and store.names() == []
    listing = store.run("list")
    assert "unfinished: tiny-Q8_0" in listing.stderr and REF in listing.stderr
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    assert gguf_hub.gets(FILE)[-1].headers["Range"] == "bytes=100000-"


def test_an_unfinished_download_can_be_removed(store, gguf_hub):
    gguf_hub.fault(FILE, drop(100_000))
    assert store.pull(REF, "--retries", 1, hub=gguf_hub).returncode == 1
    done = store.run("rm", "tiny-Q8_0")
    assert done.returncode == 0 and "freed" in done.stderr
    assert store.leftovers() == []


def test_a_file_that_changed_in_between_starts_again(store, gguf_hub):
    gguf_hub.fault(FILE, drop(100_000))
    assert store.pull(REF, "--retries", 1, hub=gguf_hub).returncode == 1
    gguf_hub.files[FILE] = tiny_gguf(seed=2)
    gguf_hub.commit = "d" * 40
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    assert "Range" not in gguf_hub.gets(FILE)[-1].headers


def test_damage_in_the_unfinished_part_is_found(store, gguf_hub):
    gguf_hub.fault(FILE, drop(100_000))
    assert store.pull(REF, "--retries", 1, hub=gguf_hub).returncode == 1
    [partial] = store.partials()
    data = bytearray(partial.read_bytes())
    data[5000] ^= 1
    partial.write_bytes(data)
    done = store.pull(REF, hub=gguf_hub)
    pulled(store, gguf_hub, done)
    assert "SHA-256" in done.stderr and "again" in done.stderr


def test_a_newer_commit_replaces_the_model(store, gguf_hub):
    assert store.pull(REF, hub=gguf_hub).returncode == 0
    gguf_hub.files[FILE] = tiny_gguf(seed=3)
    gguf_hub.commit = "e" * 40
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    assert "@" + "e" * 40 in store.entry("tiny-Q8_0")["source"]


def test_an_unanswered_connection_is_given_up_in_time(store, gguf_hub):
    with socket.socket() as silent:  # accepts, never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        begun = time.monotonic()
        done = store.pull(REF, "--connect-timeout", 1,
                          HF_ENDPOINT="http://127.0.0.1:%d" % silent.getsockname()[1])
        failed(done, "no answer", "--as NAME")
        assert time.monotonic() - begun < 3
    begun = time.monotonic()
    failed(store.pull(REF, "--connect-timeout", 2), "no answer")  # nothing listens there
    assert time.monotonic() - begun < 4


def test_a_connection_that_falls_silent_is_broken_off(store, gguf_hub):
    gguf_hub.fault(FILE, stall(60_000))
    begun = time.monotonic()
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    assert 10 <= time.monotonic() - begun < 20  # formats.md HB-10
    assert gguf_hub.gets(FILE)[-1].headers["Range"] == "bytes=60000-"


@pytest.mark.parametrize("value", ["0", "-1", "nan", "1e9"])
def test_patience_out_of_range(store, value):
    failed(store.pull(REF, f"--connect-timeout={value}"), "connect-timeout", code=2)


# ---- servers that lie ------------------------------------------------------------------------
LIES = {
    "a length below the size": [says(length=200_000)],
    "a length above the size": [says(length=400_000)],
    "more bytes than the size": [says(body=tiny_gguf() + b"x" * 70_000, chunked=True)],
    "a rest that begins elsewhere": [drop(100_000), says(content_range="bytes 99999-300127/300128")],
    "a rest of another size": [drop(100_000), says(content_range="bytes 100000-300199/300200")],
    "a rest without a range": [drop(100_000), says(content_range="")],
    "a range that is none": [drop(100_000), says(content_range="bytes 200-100/300")],
    "a range that its length denies": [drop(100_000), says(
        status=206, content_range=None, body=b"x" * 5000)],
    "one wrong byte": [corrupt()],
}


@pytest.mark.parametrize("lie", LIES, ids=lambda s: s.replace(" ", "_"))
def test_a_lie_never_becomes_a_model(store, gguf_hub, lie):
    gguf_hub.fault(FILE, *LIES[lie])
    done = store.pull(REF, hub=gguf_hub)
    failed(done, "hf:org/model/" + FILE)
    assert store.names() == []
    # What stays is usable: the honest server finishes it.
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))


def test_a_body_that_ends_early_is_fetched_on(store, gguf_hub):
    gguf_hub.fault(FILE, says(body=tiny_gguf()[:120_000], chunked=True))
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    assert gguf_hub.gets(FILE)[-1].headers["Range"] == "bytes=120000-"


def test_a_server_without_ranges_sends_all_again(store, gguf_hub):
    gguf_hub.fault(FILE, drop(100_000), says(body=tiny_gguf(), status=200, content_range=""))
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))


def test_a_small_file_with_a_wrong_byte(store):
    with Hub({"config.json": b'{"a": 1}', "model.safetensors": tiny_safetensors()}) as hub:
        hub.fault("config.json", corrupt(4))
        failed(store.pull("hf:org/model", hub=hub), "config.json", "git hash")
        assert store.names() == []


def test_hashes_that_contradict(store, gguf_hub):
    real = gguf_hub.sibling
    gguf_hub.sibling = lambda name: {**real(name), "lfs": {"sha256": "a" * 64, "size": len(gguf_hub.files[name])}}
    failed(store.pull(REF, hub=gguf_hub), "two SHA-256")
    assert store.names() == []


def test_a_file_that_is_no_model(store):
    with Hub({FILE: b"<!DOCTYPE html><html>" + b"x" * 9000}) as hub:
        failed(store.pull(REF, hub=hub), FILE)
        assert store.names() == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"sha": 5}', b'{"sha": "main", "siblings": []}',
                                  b'{"sha": "%s", "siblings": [5]}' % (b"c" * 40),
                                  b"[" * 100_000, b"\xff\xfe"])
def test_a_listing_that_is_none(store, gguf_hub, body):
    gguf_hub.api_faults.append(answer(200, body=body))
    failed(store.pull(REF, hub=gguf_hub), "hf:org/model")


# ---- answers that refuse -----------------------------------------------------------------------
def test_a_gated_repository(store):
    with Hub({FILE: tiny_gguf()}, token=TOKEN) as hub:
        failed(store.pull(REF, hub=hub), "gated repository", "401", "set HF_TOKEN", hub.url + "/org/model")
        failed(store.pull(REF, hub=hub, HF_TOKEN="hf_other"), "403", "HF_TOKEN")
        done = store.pull(REF, hub=hub, HF_TOKEN=TOKEN)
        pulled(store, hub, done)


def test_the_token_stays_with_its_host(store, tmp_path):
    with Hub({FILE: tiny_gguf()}, token=TOKEN) as hub, Hub({}) as other:
        (tmp_path / "token").write_text(TOKEN + "\n")
        pulled(store, hub, store.pull(REF, hub=hub, HF_TOKEN_PATH=str(tmp_path / "token")))
        home = [r for r in hub.requests if r.server == "home"]
        cdn = [r for r in hub.requests if r.server == "cdn"]
        assert home and all(r.headers.get("Authorization") == f"Bearer {TOKEN}" for r in home)
        assert cdn and not any("Authorization" in r.headers for r in cdn)
        assert TOKEN not in str([r for r in cdn])
        # A listing that sends us elsewhere gets no token either.
        hub.api_faults.append(redirect(other.url + "/steal"))
        store.pull("hf:org/model:F16", hub=hub, HF_TOKEN=TOKEN)
        assert other.requests and not any("Authorization" in r.headers for r in other.requests)
        for file in store.models.rglob("*"):
            assert not file.is_file() or TOKEN.encode() not in file.read_bytes()


def test_a_token_that_would_smuggle_a_header(store, gguf_hub):
    failed(store.pull(REF, hub=gguf_hub, HF_TOKEN="a\r\nX-Evil: 1"), "HF_TOKEN", "one line")
    assert gguf_hub.requests == []


@pytest.mark.parametrize("reference, words", [
    ("hf:org/absent:Q8_0", ["no repository org/absent"]),
    ("hf:org/model@absent:Q8_0", ["no revision 'absent'", "org/model"]),
])
def test_what_is_not_there(store, gguf_hub, reference, words):
    failed(store.pull(reference, hub=gguf_hub), *words, "404")


def test_a_file_that_vanished(store, gguf_hub):
    gguf_hub.redirect_large = False
    gguf_hub.fault(FILE, answer(404, {"X-Error-Code": "EntryNotFound"}))
    failed(store.pull(REF, hub=gguf_hub), f"no file '{FILE}'", "org/model", "404")


def test_416_for_a_stale_part_starts_again(store, gguf_hub):
    gguf_hub.fault(FILE, drop(100_000), answer(416, {"Content-Range": "bytes */50"}))
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    assert [r.headers.get("Range") for r in gguf_hub.gets(FILE)] == [None, "bytes=100000-", None]


def test_416_always_ends(store, gguf_hub):
    gguf_hub.always[FILE] = answer(416)
    failed(store.pull(REF, hub=gguf_hub), "416")


def test_a_part_that_is_complete_needs_no_request(store, gguf_hub):
    gguf_hub.fault(FILE, drop(100_000))
    assert store.pull(REF, "--retries", 1, hub=gguf_hub).returncode == 1
    store.partials()[0].write_bytes(gguf_hub.files[FILE])
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    assert len(gguf_hub.gets(FILE)) == 1


def test_429_waits_as_long_as_asked(store, gguf_hub):
    gguf_hub.fault(FILE, answer(429, {"Retry-After": "2"}))
    begun = time.monotonic()
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    assert 2 <= time.monotonic() - begun < 6
    gguf_hub.api_faults.append(answer(429, {"Retry-After": "5000"}))
    begun = time.monotonic()
    failed(store.pull("hf:org/model:f16", hub=gguf_hub), "429", "5000 s")
    assert time.monotonic() - begun < 2


def test_500_is_tried_again_and_not_for_ever(store, gguf_hub):
    gguf_hub.fault(FILE, answer(500), answer(503))
    gguf_hub.api_faults.append(answer(502))
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    store.run("rm", "tiny-Q8_0")
    gguf_hub.always[FILE] = answer(500)
    before = len(gguf_hub.gets(FILE))
    failed(store.pull(REF, "--retries", 3, hub=gguf_hub), "500", "3 tries")
    assert len(gguf_hub.gets(FILE)) - before == 3


def test_a_signed_address_that_expired_is_asked_for_anew(store, gguf_hub):
    gguf_hub.fault(FILE, drop(100_000), answer(403))
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))
    assert len([r for r in gguf_hub.requests if "/resolve/" in r.path]) == 3


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/",
                                    "http://192.0.2.1/x", "LOOP"])
def test_redirects_that_are_not_followed(store, gguf_hub, target):
    gguf_hub.redirect_large = False
    to = gguf_hub.url + f"/org/model/resolve/{gguf_hub.commit}/{FILE}" if target == "LOOP" else target
    gguf_hub.always[FILE] = redirect(to)
    failed(store.pull(REF, hub=gguf_hub), "redirect")
    assert store.names() == []
    assert len(gguf_hub.requests) < 20


@pytest.mark.parametrize("endpoint", ["http://192.0.2.1", "ftp://127.0.0.1", "hub", "https://user@host"])
def test_an_endpoint_that_is_not_safe(store, endpoint):
    failed(store.pull(REF, HF_ENDPOINT=endpoint), "HF_ENDPOINT", "https")


# ---- interruption, two at once, crashes --------------------------------------------------------
@pytest.mark.parametrize("where", ["trickle", "stall", "retry", "listing"])
def test_ctrl_c_stops_within_a_second_and_keeps_the_part(store, gguf_hub, where):
    if where == "listing":
        # Never an answer; the connection stays open.
        gguf_hub.api_faults.append(lambda handler, data: (gguf_hub.wait_closing(30), True)[1])
    else:
        gguf_hub.fault(FILE, {"trickle": trickle(50_000), "stall": stall(60_000),
                              "retry": answer(429, {"Retry-After": "60"})}[where])
    process = store.start("pull", REF, hub=gguf_hub)
    wait_for(lambda: gguf_hub.gets(FILE) if where != "listing" else gguf_hub.requests)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    out, err = process.communicate(timeout=10)
    assert time.monotonic() - begun < 1
    assert process.returncode == 130, err
    assert store.names() == [] and out == ""
    if where in ("trickle", "stall"):
        assert store.partials()[0].stat().st_size > 5_000
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))


def test_two_at_once_fetch_it_once(store, gguf_hub):
    gguf_hub.fault(FILE, trickle(300_000))
    first = store.start("pull", REF, hub=gguf_hub)
    wait_for(lambda: gguf_hub.gets(FILE))
    second = store.start("pull", REF, hub=gguf_hub)
    results = [p.communicate(timeout=30) for p in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], results
    assert "another ingot" in results[1][1]
    assert len(gguf_hub.gets(FILE)) == 1
    assert store.bytes("tiny-Q8_0", FILE) == gguf_hub.files[FILE]
    assert store.leftovers() == []


def test_rm_of_a_running_download_is_refused(store, gguf_hub):
    gguf_hub.fault(FILE, trickle(100_000))
    process = store.start("pull", REF, hub=gguf_hub)
    wait_for(store.partials)
    failed(store.run("rm", "tiny-Q8_0"), "another ingot is fetching")
    assert process.wait(30) == 0


def test_killed_at_any_moment(store, gguf_hub):
    """kill -9 at ten moments of a download: what is left is never listed and always usable."""
    for i in range(10):
        gguf_hub.faults[FILE] = [trickle(600_000, 0.02)]
        process = store.start("pull", REF, hub=gguf_hub)
        wait_for(lambda: process.poll() is not None or store.partials() or i == 0)
        time.sleep(0.06 * i)
        process.kill()
        process.communicate()
        for name in store.names():
            assert store.bytes(name, FILE) == gguf_hub.files[FILE]
        if store.names():
            store.run("rm", "tiny-Q8_0")
    gguf_hub.faults[FILE] = []
    pulled(store, gguf_hub, store.pull(REF, hub=gguf_hub))


@pytest.mark.parametrize("reference", ["hf:", "hf:a/b/c", "hf:a/..", "hf:../b", "hf:a/b@", "hf:a/b:", "hf:a b/c",
                                       "hf:a--b/c", "hf:-a/b", "hf:a/b.git", "hf:" + "a" * 97, "hf:a/b@../x",
                                       "hf:a/b:../x.gguf", "hf:a/b:model.safetensors"])
def test_references_that_are_none(store, gguf_hub, reference):
    gguf_hub.repo = "a/b"
    failed(store.pull(reference, hub=gguf_hub), "hf:", code=2)


def test_hub_server_hashes_as_git_does(tmp_path):
    """The reference of these tests is git's own."""
    (tmp_path / "x").write_bytes(b"content\n")
    done = subprocess.run(["git", "hash-object", tmp_path / "x"], capture_output=True, text=True)
    assert done.stdout.strip() == hub_mod.git_sha1(b"content\n")
