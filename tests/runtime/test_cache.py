"""The disk cache: what is wrong with it costs a warning, never an error and never a wrong kernel."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import random
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace

import dpnp
import platformdirs
import pytest
from click.testing import CliRunner

import tl_dpnp
from tests.runtime.support import AXPY, FUSED
from tl_dpnp.__main__ import main
from tl_dpnp.errors import CacheWarning
from tl_dpnp.lowering import LoweringOptions
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import cache_key
from tl_dpnp.runtime.store import cache as cache_module
from tl_dpnp.runtime.store import fingerprint, temporary_files
from tl_dpnp.runtime.store.cache import DiskCache, Entry, open_cache
from tl_dpnp.runtime.store.fingerprint import PACKAGES, package_versions
from tl_dpnp.target.catalog import SSE

ENTRY = Entry({"plan": {"entry": "k"}, "text": "ü"}, bytes(range(256)))
KEY = "a" * 64
NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change a file's owner")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder that does not exist yet, and no cache in this process that would hide it."""
    path = tmp_path / "parent" / "tl_dpnp"
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(path))
    return path


@pytest.fixture
def cache(folder):
    """An open cache in that folder."""
    cache = open_cache()
    assert cache is not None
    return cache


@contextmanager
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def run_axpy(**options):
    """Compile and run a kernel, check its result and return its statistics."""
    kernel = tl_dpnp.compile(AXPY, **options)
    x, y = dpnp.arange(5, dtype="float32"), dpnp.ones(5, dtype="float32")
    kernel(3.0, x, y)
    assert y.asnumpy().tolist() == [1, 4, 7, 10, 13]
    return kernel.stats


# --- entries ---------------------------------------------------------------------------------------------------------


def test_entries_come_back_whole(cache):
    with no_warnings():
        assert cache.load(KEY) is None
        cache.store(KEY, ENTRY)
        assert cache.load(KEY) == ENTRY
        cache.store(KEY, replace(ENTRY, content=b"other"))
        assert cache.load(KEY).content == b"other"


def test_the_folder_is_private(cache, folder):
    assert folder.stat().st_mode & 0o777 == 0o700
    cache.store(KEY, ENTRY)
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    assert not list(folder.glob("*.tmp"))
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize("suffix", [".json", ".bin"])
def test_every_damage_is_found(cache, folder, suffix):
    cache.store(KEY, ENTRY)
    (path,) = folder.glob("*" + suffix)
    whole = path.read_bytes()
    rng = random.Random(7)
    for _ in range(300):
        position = rng.randrange(len(whole))
        damaged = rng.choice([
            whole[:position],
            whole[:position] + bytes([whole[position] ^ (1 << rng.randrange(8))]) + whole[position + 1 :],
            whole[:position] + whole[position + 1 :],
            rng.randbytes(len(whole)),
            b"[" * 100_000,
        ])
        path.write_bytes(damaged)
        with pytest.warns(CacheWarning, match="is ignored"):
            assert cache.load(KEY) is None


def test_entries_do_not_answer_for_one_another(cache, folder):
    cache.store(KEY, ENTRY)
    os.rename(cache.path(KEY), cache.path("b" * 64))
    with pytest.warns(CacheWarning, match="checksum"):
        assert cache.load("b" * 64) is None


def test_an_entry_without_its_content_is_missing(cache, folder):
    cache.store(KEY, ENTRY)
    for path in folder.glob("*.bin"):
        path.unlink()
    with no_warnings():
        assert cache.load(KEY) is None


@pytest.mark.parametrize("body", [[], {}, 3, None, {"body": {}}, {"checksum": 1, "body": []}])
def test_other_json_is_ignored(cache, body):
    with open(cache.path(KEY), "w") as file:
        json.dump(body, file)
    with pytest.warns(CacheWarning, match="is ignored"):
        assert cache.load(KEY) is None


def test_a_failed_write_leaves_nothing_behind(cache, folder, monkeypatch):
    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.warns(CacheWarning, match="cannot be written: .*No space left"):
        cache.store(KEY, ENTRY)
    assert list(folder.iterdir()) == []


def test_a_pipe_or_folder_in_place_of_an_entry_is_ignored(cache, folder):
    cache.store(KEY, ENTRY)
    for make in (os.mkfifo, os.mkdir):
        for path in folder.iterdir():
            os.rmdir(path) if path.is_dir() else path.unlink()
        make(cache.path(KEY))
        with pytest.warns(CacheWarning, match="is ignored"):
            assert cache.load(KEY) is None
    with pytest.warns(CacheWarning, match="cannot be written"):
        cache.store(KEY, ENTRY)


#: Stores an entry and is killed when its first file is written but not yet in place.
KILLED = f"""
import os, signal, sys
from tl_dpnp.runtime.store.cache import DiskCache, Entry
os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
DiskCache(sys.argv[1]).store({KEY!r}, Entry({{}}, b"content"))
"""


@pytest.fixture
def untidied(monkeypatch):
    """No folder has been tidied yet."""
    monkeypatch.setattr(cache_module, "_tidied", set())


def leftovers(folder):
    return sorted(path.name for path in folder.glob(".*"))


def test_what_a_killed_process_left_is_removed(cache, folder, untidied):
    root = os.path.dirname(os.path.dirname(tl_dpnp.__file__))
    result = subprocess.run([sys.executable, "-c", KILLED, str(folder)], env={**os.environ, "PYTHONPATH": root})
    assert result.returncode == -signal.SIGKILL
    (left,) = leftovers(folder)
    with no_warnings():
        cache.store("b" * 64, ENTRY)
    assert leftovers(folder) == []
    assert cache.load("b" * 64) == ENTRY
    (folder / left).write_bytes(b"")  # the folder is gone through once
    cache.store("c" * 64, ENTRY)
    assert leftovers(folder) == [left]


@pytest.mark.parametrize(("machine", "process", "age", "stays"), [
    (None, None, 0, True),  # we
    (None, 1 << 22, 0, False),  # nobody: process numbers are smaller
    (None, 1 << 80, 0, False),
    ("0" * 16, 1 << 22, 0, True),  # of another machine nothing is known
    ("0" * 16, 1 << 22, 3600, True),
    ("0" * 16, 1 << 22, 25 * 3600, False),
    (None, None, 25 * 3600, False),
])  # fmt: skip
def test_leftovers_are_old_or_of_dead_processes(cache, folder, untidied, machine, process, age, stays):
    name = f".{machine or temporary_files._machine()}-{process or os.getpid()}-{'a' * 16}.tmp"
    (folder / name).write_bytes(b"half")
    (folder / ".another.tmp").write_bytes(b"not ours")
    then = time.time() - age
    os.utime(folder / name, (then, then))
    cache.store(KEY, ENTRY)
    assert leftovers(folder) == sorted([".another.tmp", *([name] if stays else [])])


def test_leftovers_of_earlier_versions_are_removed_by_age(cache, folder, untidied):
    for name, age in ((".abcd_012.tmp", 25 * 3600), (".abcd_013.tmp", 60)):
        (folder / name).write_bytes(b"half")
        os.utime(folder / name, (time.time() - age,) * 2)
    cache.store(KEY, ENTRY)
    assert leftovers(folder) == [".abcd_013.tmp"]


# --- folders that cannot be used -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_is_not_used(folder, mode):
    folder.mkdir(parents=True)
    folder.chmod(mode)
    with pytest.warns(CacheWarning, match="is not used: others may write to it"):
        assert run_axpy().cache_path is None
    assert list(folder.iterdir()) == []


@AS_ROOT
def test_a_folder_of_somebody_else_is_not_used(folder):
    folder.mkdir(parents=True)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.warns(CacheWarning, match="is not used: it belongs to another user"):
        assert open_cache() is None


@AS_ROOT
def test_a_file_of_somebody_else_is_not_read(cache):
    cache.store(KEY, ENTRY)
    os.chown(cache.path(KEY), NOBODY, NOBODY)
    with pytest.warns(CacheWarning, match="it belongs to another user"):
        assert cache.load(KEY) is None


def test_a_file_that_others_may_write_is_not_read(cache):
    cache.store(KEY, ENTRY)
    os.chmod(cache.path(KEY), 0o622)
    with pytest.warns(CacheWarning, match="others may write"):
        assert cache.load(KEY) is None


def test_a_file_in_place_of_the_folder(folder):
    folder.parent.mkdir()
    folder.write_text("")
    with pytest.warns(CacheWarning, match="is not used: it is no folder"):
        assert run_axpy().cache_path is None


def test_a_folder_that_cannot_be_made(monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", "/proc/tl_dpnp/cache")
    with pytest.warns(CacheWarning, match="/proc/tl_dpnp/cache is not used"):
        assert run_axpy().cache_path is None


def nobodys_home(user):
    raise KeyError(f"getpwuid(): uid not found: {user}")


def test_a_user_without_a_home(tmp_path, monkeypatch):
    """As in a container that runs with the number of a user that it does not know."""
    for variable in ("HOME", "XDG_CACHE_HOME", "TL_DPNP_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobodys_home)
    monkeypatch.setattr(cache_module, "_said", set())
    monkeypatch.chdir(tmp_path)
    with pytest.warns(CacheWarning, match="is not used: the user has no home folder .*: set TL_DPNP_CACHE_DIR"):
        assert run_axpy().cache_path is None
    for command in (["cache"], ["cache", "prune", "--limit", "0"]):
        result = CliRunner().invoke(main, command)
        assert (result.exit_code, type(result.exception)) == (1, SystemExit)
        assert "set TL_DPNP_CACHE_DIR, or HOME" in result.output
    assert not [*tmp_path.iterdir()]


def test_older_versions_that_say_nothing_of_a_missing_home(monkeypatch):
    monkeypatch.delenv("TL_DPNP_CACHE_DIR")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *names, **options: "~/.cache/tl_dpnp")
    monkeypatch.setattr(cache_module, "_said", set())
    with pytest.warns(CacheWarning, match="the user has no home folder"):
        assert open_cache() is None


def test_a_read_only_cache_is_read_but_not_written(cache, folder):
    cache.store(KEY, ENTRY)
    for path in folder.iterdir():
        os.chown(path, *((NOBODY, NOBODY) if os.geteuid() == 0 else (-1, -1)))
    with _as_ordinary_user(folder):
        folder_cache = DiskCache(str(folder))
        assert folder_cache.load(KEY) == ENTRY
        with pytest.warns(CacheWarning, match="cannot be written: .*Permission denied"):
            folder_cache.store("b" * 64, ENTRY)


@contextmanager
def _as_ordinary_user(folder):
    """Make a folder read-only and act as a user for whom that counts."""
    folder.chmod(0o500)
    parents = [path for path in folder.parents if path.stat().st_mode & 0o777 == 0o700]
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        for path in parents:
            path.chmod(0o711)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
            for path in parents:
                path.chmod(0o700)
        folder.chmod(0o700)


# --- kernels ---------------------------------------------------------------------------------------------------------


def test_kernels_are_found_again(folder):
    with no_warnings():
        first, second = run_axpy(), run_axpy()
    assert (first.cache_hits, first.cache_misses, first.cache_path) == (0, 1, str(folder))
    assert (second.cache_hits, second.cache_misses) == (1, 0)
    assert 0 < second.compile_seconds < first.compile_seconds


def test_a_damaged_kernel_is_compiled_and_stored_again(folder):
    run_axpy()
    for path in folder.glob("*.bin"):
        path.write_bytes(path.read_bytes()[:-8] + b"\0" * 8)
    with pytest.warns(CacheWarning, match="checksum of its content"):
        assert run_axpy().cache_misses == 1
    with no_warnings():
        assert run_axpy().cache_hits == 1


@pytest.mark.parametrize("facts", [
    {}, [], None, "plan", {"plan": {}}, {"plan": [1, 2]}, {"plan": None, "source": ""}, {"plan": {"entry": "k"}},
    {"plan": {"none": 1}, "source": "x"}, {"module": ["Module", []]}, {"module": ["Module"]}, {"schedules": [1]},
    {"schedules": [1], "summary": "", "gain": 1}, {"schedules": [["a"]], "summary": "", "gain": 1},
])  # fmt: skip
def test_entries_that_say_nothing_of_use_are_ignored(folder, facts):
    run_axpy()
    for path in folder.glob("*.json"):
        key, content = path.stem, json.loads(path.read_text())["body"]["content"]
        body = {"key": key, "content": content, "facts": facts}
        document = {"checksum": hashlib.sha256(cache_module._canonical(body)).hexdigest(), "body": body}
        path.write_text(json.dumps(document))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        assert run_axpy().cache_misses == 1
    with no_warnings():
        assert run_axpy().cache_hits == 1


@pytest.mark.parametrize("switch", ["option", "setting"])
def test_the_cache_can_be_switched_off(folder, switch):
    if switch == "option":
        stats = run_axpy(cache=False)
    else:
        with tl_dpnp.config.scope(CACHE=False):
            stats = run_axpy()
    assert (stats.cache_hits, stats.cache_misses, stats.cache_path) == (0, 0, None)
    assert not folder.exists()


def test_a_kernel_that_was_made_without_the_cache_stays_without(folder):
    """Settings are those of `compile`; the first call, which compiles, may come later."""
    with tl_dpnp.config.scope(CACHE=False):
        kernel = tl_dpnp.compile(AXPY)
    x, y = dpnp.ones(3, dtype="float32"), dpnp.ones(3, dtype="float32")
    kernel(1.0, x, y)
    assert kernel.stats.cache_path is None
    assert not folder.exists()


#: A module that makes a kernel whose only access is out of bounds.
MAKER = """
import tl_dpnp
from tl_dpnp.language import FunctionBuilder, memref
from tl_dpnp.scalars import F32

b = FunctionBuilder("late", x=memref(F32, None))
b.store(1.0, b.x, 7)
kernel = tl_dpnp.compile(b, debug=True)
"""


def test_checks_name_the_line_that_a_built_instruction_stands_in_now(folder, tmp_path):
    """Also where another line, before the module was edited, made the very same kernel."""
    path = tmp_path / "maker.py"
    for line in (7, 10):
        names = {}
        exec(compile("\n" * (line - 7) + MAKER, str(path), "exec"), names)
        with pytest.raises(tl_dpnp.TLBoundsError, match=f"maker.py:{line}:"):
            names["kernel"](dpnp.zeros(3, dtype="float32"))


def test_recompile_replaces_the_entry(cache, folder):
    kernel = tl_dpnp.compile(AXPY)
    x, y = dpnp.ones(3, dtype="float32"), dpnp.ones(3, dtype="float32")
    kernel(1.0, x, y)
    device = kernel._overloads.current_device()
    key = cache_key(Program(tl_dpnp.parse(AXPY).functions[0], AXPY), device, kernel.options.lowering)
    before = os.stat(cache.path(key)).st_ino
    kernel.recompile()
    assert os.stat(cache.path(key)).st_ino != before
    assert kernel.stats.cache_misses == 2
    kernel(1.0, x, y)
    assert y.asnumpy().tolist() == [3, 3, 3]


def test_the_key_tells_apart_what_gives_other_code(monkeypatch):
    (device, *_) = tl_dpnp.devices()
    program = Program(tl_dpnp.parse(AXPY).functions[0], AXPY)
    built = Program(program.function)
    keys = [
        cache_key(program, device, LoweringOptions()),
        cache_key(program, device, LoweringOptions(form="subgroup")),
        cache_key(program, device, LoweringOptions(debug=True)),
        cache_key(program, replace(device, driver="another"), LoweringOptions()),
        cache_key(program, replace(device, core=SSE), LoweringOptions()),
        cache_key(Program(program.function, AXPY + " "), device, LoweringOptions()),
        cache_key(Program(tl_dpnp.parse(FUSED).functions[0], FUSED), device, LoweringOptions()),
        cache_key(built, device, LoweringOptions()),
    ]
    monkeypatch.setattr("tl_dpnp.runtime.compiler.package_versions", lambda packages: {"numba": "0.0"})
    keys.append(cache_key(program, device, LoweringOptions()))
    monkeypatch.setattr("tl_dpnp.runtime.compiler.compiler_fingerprint", lambda: "another")
    keys.append(cache_key(program, device, LoweringOptions()))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("source", fingerprint._SOURCES)
def test_keys_depend_on_each_part_of_the_compiler(source, monkeypatch):
    """A part that has moved is an error: without it, code that an older compiler made would be taken for its own."""
    compiler_fingerprint = fingerprint.compiler_fingerprint.__wrapped__
    others = tuple(part for part in fingerprint._SOURCES if part != source)
    whole = compiler_fingerprint()
    monkeypatch.setattr(fingerprint, "_SOURCES", others)
    assert compiler_fingerprint() != whole
    monkeypatch.setattr(fingerprint, "_SOURCES", (*others, f"moved/{source}"))
    with pytest.raises(FileNotFoundError, match="moved"):
        compiler_fingerprint()


def test_functions_of_one_text_have_entries_of_their_own(folder):
    module = tl_dpnp.compile(AXPY + AXPY.replace("@axpy", "@axpy2").replace(", 1.0,", ", 2.0,"))
    x, y = dpnp.ones(3, dtype="float32"), dpnp.ones(3, dtype="float32")
    module.axpy(1.0, x, y)
    module.axpy2(1.0, x, y)
    assert y.asnumpy().tolist() == [5, 5, 5]
    assert module.axpy2.stats.cache_misses == 1


def test_versions_are_those_of_the_metadata():
    from importlib import metadata

    def version(package):
        try:
            return metadata.version(package.replace("_", "-"))
        except metadata.PackageNotFoundError:
            return "not installed"

    assert version("llvmlite") != "not installed"
    assert package_versions() == {package: version(package) for package in PACKAGES["sycl"]}


# --- several processes -----------------------------------------------------------------------------------------------

CHILD = f"""
import sys
import dpnp, tl_dpnp
imported = [name for name in ("numba", "numba_dpex", "llvmlite", "lark") if name in sys.modules]
assert not imported, imported
kernel = tl_dpnp.compile({FUSED!r})
A = [dpnp.ones((16, 8), dtype="float32", order="F") for _ in range(9)]
B, C = dpnp.ones((8, 8), dtype="float32", order="F"), dpnp.ones((8, 16), dtype="float32", order="F")
D = dpnp.zeros((16, 16, 9), dtype="float32", order="F")
kernel(0.5, A, B, C, D)
assert (D.asnumpy() == 32).all()
imported = [name for name in ("numba", "numba_dpex", "llvmlite", "lark") if name in sys.modules]
print(kernel.stats.cache_hits, kernel.stats.driver_builds, *imported)
"""


def start_child(folder):
    root = os.path.dirname(os.path.dirname(tl_dpnp.__file__))
    environment = {**os.environ, "TL_DPNP_CACHE_DIR": str(folder), "PYTHONWARNINGS": "error::UserWarning:tl_dpnp"}
    return subprocess.Popen(
        [sys.executable, "-c", CHILD], env={**environment, "PYTHONPATH": root}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )


def outputs_of(children):
    results = [child.communicate(timeout=300) for child in children]
    assert all(child.returncode == 0 for child in children), results
    return [output.split() for output, _ in results]


def test_a_warm_start_imports_no_compiler(folder):
    ((hits, builds, *modules),) = outputs_of([start_child(folder)])
    assert (hits, builds) == ("0", "1")
    assert "llvmlite" in modules
    assert outputs_of([start_child(folder)]) == [["1", "0"]]


def test_processes_that_compile_at_once_do_not_disturb_each_other(folder):
    outputs_of([start_child(folder) for _ in range(4)])
    assert not list(folder.glob(".*"))
    assert outputs_of([start_child(folder)]) == [["1", "0"]]


def test_the_default_folder_is_the_users(monkeypatch):
    import platformdirs

    monkeypatch.delenv("TL_DPNP_CACHE_DIR")
    assert cache_module.cache_folder() == platformdirs.user_cache_dir("tl_dpnp", appauthor=False)


def test_warnings_point_at_the_caller_and_come_once(tmp_path, monkeypatch):
    """Also where a thread of the package's own does the work."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(folder))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for scale in range(3):
            tl_dpnp.compile(f"func @f(%x: memref<f32x4>) {{ store {scale}.0, %x[0] : memref<f32x4> }}").inspect_source()
    assert [warning.filename for warning in caught if warning.category is CacheWarning] == [__file__]
    kernel = tl_dpnp.compile("func @f(%x: memref<f32x4>) { store 3.0, %x[0] : memref<f32x4> }")
    monkeypatch.setattr("tl_dpnp.runtime.store.cache.write_whole", _no_space)
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "other"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel.inspect_source()  # compiled by a thread, which stores it
        kernel.recompile()
    found = [warning for warning in caught if warning.category is CacheWarning]
    assert [(warning.filename, "cannot be written" in str(warning.message)) for warning in found] == [(__file__, True)]


def _no_space(*_arguments):
    raise OSError("No space left on device")
