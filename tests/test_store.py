"""The local store: crashes and failing disks, names, local models (`ingot pull FILE`, `list`, `rm`)."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "tools"))
from hub_server import Hub, tiny_gguf, tiny_safetensors, trickle  # noqa: E402
from store_tools import FILE, REF, Store, failed, gguf_hub, needs_strace, pulled, store, strace, \
    wait_for  # noqa: E402, F401


# ---- crashes --------------------------------------------------------------------------------
CALLS = ["rename", "renameat2", "unlink", "unlinkat", "fsync", "ftruncate", "pwrite64"]


@needs_strace
@pytest.mark.parametrize("job", ["pull", "replace", "copy", "rm"])
def test_killed_at_each_change_of_the_disk(ingot, tmp_path, gguf_hub, job):
    """kill -9 at the n-th call of each kind, for every n: whole models or none."""
    source = tmp_path / "m.gguf"
    source.write_bytes(tiny_gguf(20_000, 9))
    old, new = gguf_hub.files[FILE], tiny_gguf(seed=4)
    name, file = ("m", "m.gguf") if job == "copy" else ("tiny-Q8_0", FILE)
    wanted = {"copy": [source.read_bytes()], "replace": [old, new]}.get(job, [old])
    arguments = {"copy": ("pull", source, "--as", "m"), "rm": ("rm", name)}.get(job, ("pull", REF))
    n_kills = 0
    for call in CALLS if job == "pull" else CALLS[:5]:
        for n in range(1, 100):
            store = Store(ingot, tmp_path / f"{call}{n}")
            gguf_hub.files[FILE], gguf_hub.commit = old, "c" * 40
            if job in ("replace", "rm"):
                assert store.pull(REF, hub=gguf_hub).returncode == 0
            if job == "replace":
                gguf_hub.files[FILE], gguf_hub.commit = new, "d" * 40
            done = store.run(*arguments, hub=gguf_hub, prefix=strace(call, f"signal=KILL:when={n}"))
            for listed in store.names():
                assert listed == name and store.bytes(name, file) in wanted, (call, n)
            assert job != "replace" or store.names() == [name], (call, n)
            if done.returncode == 0:
                break
            n_kills += 1
            # Once more, undisturbed: done, and nothing left over.
            again = store.run(*arguments, hub=gguf_hub)
            assert again.returncode == 0 or (job == "rm" and store.names() == []), again.stderr
            assert store.names() == ([] if job == "rm" else [name])
            assert job == "rm" or store.bytes(name, file) == wanted[-1]
            store.run("rm", "nothing")  # any change of the store sweeps it
            assert store.leftovers() == [], (call, n)
        else:
            pytest.fail(f"never finished: {call}")
    assert n_kills >= 4


# ---- disks ---------------------------------------------------------------------------------------
@pytest.fixture
def small_disk(tmp_path):
    """A disk of 1 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.decode().strip()}")
    yield mount
    subprocess.run(["umount", mount], check=True)


def test_a_disk_too_small_is_known_before(ingot, small_disk):
    store = Store(ingot, small_disk)
    with Hub({FILE: tiny_gguf(2_000_000)}) as hub:
        failed(store.pull(REF, hub=hub), "no space", "INGOT_HOME")
        assert hub.gets(FILE) == []
        assert store.names() == [] and store.partials() == []


def test_a_disk_that_fills_up_meanwhile(ingot, small_disk):
    store = Store(ingot, small_disk)
    with Hub({FILE: tiny_gguf(700_000)}) as hub:
        hub.fault(FILE, trickle(300_000))
        process = store.start("pull", REF, hub=hub)
        wait_for(lambda: store.partials() and store.partials()[0].stat().st_size > 50_000)
        filler = small_disk / "filler"
        with open(filler, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"x" * 4096)
            except OSError:
                pass
        out, err = process.communicate(timeout=30)
        assert process.returncode == 1 and "No space left" in err and "make room" in err, err
        assert store.names() == []
        filler.unlink()
        pulled(store, hub, store.pull(REF, hub=hub))
        assert "Range" in hub.gets(FILE)[-1].headers  # the part was kept and used


def test_a_copy_into_a_full_disk_leaves_nothing(ingot, small_disk, tmp_path):
    store = Store(ingot, small_disk)
    big = tmp_path / "big.gguf"
    big.write_bytes(tiny_gguf(2_000_000))
    failed(store.pull(big), "no space")
    assert store.names() == [] and store.leftovers() == []
    big.write_bytes(tiny_gguf(300_000))
    assert store.pull(big).returncode == 0  # and the next one works
    assert store.names() == ["big"] and big.exists()


@needs_strace
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("job", ["pull", "copy"])
def test_each_write_that_fails(ingot, tmp_path, gguf_hub, job, error):
    """The n-th write, fsync or rename fails: one clear line, no half model, and then it works."""
    source = tmp_path / "m.gguf"
    source.write_bytes(tiny_gguf(20_000, 9))
    arguments = ("pull", REF) if job == "pull" else ("pull", source)
    n_failed = 0
    for call in ("pwrite64", "write", "fsync", "rename", "mkdir"):
        for n in range(1, 200):
            store = Store(ingot, tmp_path / f"{call}{n}")
            done = store.run(*arguments, hub=gguf_hub, prefix=strace(call, f"error={error}:when={n}"))
            assert done.returncode in (0, 1), (call, n, done.stderr)
            if done.returncode == 0:
                break
            n_failed += 1
            if "standard output" in done.stderr:  # only its name could not be told: it is whole
                assert len(store.names()) == 1, (call, n)
                continue
            assert store.names() == [], (call, n)
            assert store.run(*arguments, hub=gguf_hub).returncode == 0
            assert len(store.names()) == 1
        else:
            pytest.fail(f"never finished: {call}")
    assert n_failed >= 5


def test_stores_that_cannot_be_written(ingot, tmp_path, gguf_hub):
    plain = tmp_path / "plain"
    plain.write_text("a file")
    failed(Store(ingot, plain).pull(REF, hub=gguf_hub), str(plain), "Not a directory", "INGOT_HOME")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    failed(Store(ingot, dangling / "x").pull(REF, hub=gguf_hub), "dangling")
    assert gguf_hub.requests == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_store_of_someone_else(ingot, tmp_path, gguf_hub):
    home = tmp_path / "theirs"
    home.mkdir(mode=0o755)
    for directory in [tmp_path, *tmp_path.parents]:
        if directory != pathlib.Path("/") and directory.stat().st_mode & 0o005 != 0o005:
            directory.chmod(directory.stat().st_mode | 0o005)
    store = Store(ingot, home)
    failed(store.pull(REF, hub=gguf_hub, prefix=("setpriv", "--reuid=65534", "--regid=65534",
                                                 "--clear-groups")),
           "Permission denied", "INGOT_HOME names another place")


def test_no_home_at_all(store):
    environment = {k: v for k, v in store.environment().items()
                   if k not in ("HOME", "INGOT_HOME", "XDG_DATA_HOME")}
    for arguments in (["list"], ["pull", REF], ["rm", "x"]):
        done = subprocess.run([store.ingot, *arguments], env=environment, capture_output=True, text=True)
        failed(done, "no home", "INGOT_HOME")


def test_where_the_store_is(store, tmp_path):
    base = {k: v for k, v in store.environment().items() if k != "INGOT_HOME"}
    for extra, wanted in [({"HOME": "/h"}, "/h/.local/share/ingot/models"),
                          ({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "/x/ingot/models"),
                          ({"HOME": "/h", "XDG_DATA_HOME": "relative"}, "/h/.local/share/ingot/models"),
                          ({"XDG_DATA_HOME": "/x", "INGOT_HOME": "/i"}, "/i/models")]:
        done = subprocess.run([store.ingot, "list", "--json"], env={**base, **extra},
                              capture_output=True, text=True)
        assert json.loads(done.stdout)["store"] == wanted


# ---- names and local models ------------------------------------------------------------------
@pytest.mark.parametrize("name", ["../x", "a/b", "/etc", "..", ".", ".hidden", "-flag", "", "a\\b", "a\nb",
                                  "hf:x", "x" * 251])
def test_names_that_are_no_plain_folder(store, tmp_path, name):
    source = tmp_path / "m.gguf"
    source.write_bytes(tiny_gguf(5000))
    done = store.pull(source, f"--as={name}")
    if name == "":
        assert store.names() in ([], ["m"])
        return
    failed(done, "model name", code=2)
    assert not store.models.exists() or store.names() == []
    assert store.run("rm", "--", name).returncode == 2


ODD = ["Zoë 模型 🎈 a'b\"c", "trailing ", b"not \xff utf-8".decode(errors="surrogateescape"), "x" * 250,
       "%41 $(id) `id`", "hf"]


@pytest.mark.parametrize("odd", ODD, ids=["unicode", "space", "bytes", "long", "shell", "plain"])
def test_odd_folder_names(ingot, tmp_path, odd):
    """field-bugs.md 43: home, source folder and model all called so."""
    folder = tmp_path / odd
    folder.mkdir()
    source = folder / "m.gguf"
    source.write_bytes(tiny_gguf(5000))
    link = tmp_path / "link"
    link.symlink_to(folder)
    store = Store(ingot, link / odd)
    done = store.pull(os.fsdecode(source), "--as", odd)
    assert done.returncode == 0, done.stderr
    [entry] = json.loads(store.run("list", "--json").stdout)["models"]
    if odd.isprintable():
        assert entry["name"] == odd
    assert store.run("list").returncode == 0
    assert (store.models / odd / "m.gguf").read_bytes() == source.read_bytes()
    assert store.pull(os.fsdecode(source), "--as", odd).returncode == 0  # the same again
    assert store.run("rm", odd).returncode == 0
    assert store.names() == [] and store.leftovers() == []


def test_a_local_file_is_copied_not_linked(store, tmp_path):
    source = tmp_path / "m.gguf"
    data = tiny_gguf(5000)
    source.write_bytes(data)
    assert store.pull(source, "--as", "mine").stdout == "mine\n"
    with open(source, "r+b") as f:
        f.seek(4000)
        f.write(b"changed")
    assert store.bytes("mine", "m.gguf") == data
    failed(store.pull(source, "--as", "mine"), "another model of that name", "--as NAME")
    assert store.entry("mine")["source"] == str(source)
    done = store.run("rm", "mine")
    assert done.returncode == 0 and done.stdout == ""
    failed(store.run("rm", "mine"), "not in the store")


def test_a_local_directory(store, tmp_path):
    source = tmp_path / "model"
    source.mkdir()
    files = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}",
             "model.safetensors": tiny_safetensors()}
    for name, data in files.items():
        (source / name).write_bytes(data)
    (source / "notes.txt").write_text("not part of it")
    (source / "pytorch_model.bin").write_bytes(b"pickle")
    assert store.pull(f"{source}/").stdout == "model\n"
    found = {p.name: p.read_bytes() for p in (store.models / "model").iterdir() if p.name[0] != "."}
    assert found == files


@pytest.mark.parametrize("damage", [lambda d: d[:-100], lambda d: b"GGUX" + d[4:], lambda d: b"",
                                    lambda d: b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_damaged_local_file_is_refused(store, tmp_path, damage):
    source = tmp_path / "m.gguf"
    source.write_bytes(damage(tiny_gguf(5000)))
    failed(store.pull(source), str(source))
    assert store.names() == [] and not store.leftovers()


def test_local_paths_that_are_no_model(store, tmp_path):
    failed(store.pull(tmp_path / "absent.gguf"), "absent.gguf", "no such file")
    (tmp_path / "empty").mkdir()
    failed(store.pull(tmp_path / "empty"), "model directory")
    os.mkfifo(tmp_path / "fifo.gguf")
    failed(store.pull(tmp_path / "fifo.gguf"), "not a regular file")


def test_a_near_name_is_suggested(store, tmp_path):
    source = tmp_path / "m.gguf"
    source.write_bytes(tiny_gguf(5000))
    assert store.pull(source, "--as", "smollm2-135m").returncode == 0
    failed(store.run("rm", "smollm2-153m"), "did you mean 'smollm2-135m'")
