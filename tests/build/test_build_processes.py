"""Builders that race, wait, are killed or find damage: with real processes and a slow compiler."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kgen.build.clean import clean
from kgen.build.lock import FileLock
from kgen.diagnostics import KgenError
from tests.build.build_samples import body, rendered

PATIENCE = 300.0  # seconds until a test gives up; nothing is measured against it


def until(condition, process: subprocess.Popen[str] | None = None) -> None:
    """Wait for what `process`, where one is named, brings about; fail with its output once it cannot."""
    end = time.monotonic() + PATIENCE
    while not condition():
        ended = process is not None and process.poll() is not None
        if ended and not condition():
            stdout, stderr = process.communicate()
            pytest.fail(f"did not happen; the process exited with {process.returncode}\n{stdout}{stderr}")
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.02)


def out(process: subprocess.Popen[str]) -> str:
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, stderr
    return stdout.strip()


def gate(folder) -> str:
    """Shell that lets a compile pass only once `folder/open` exists, or when it is abandoned."""
    return f'while [ ! -e "{folder}/open" ] && [ -d "$PWD" ]; do sleep 0.05; done'


def test_waiting_for_a_process_that_died_fails_at_once_with_what_it_said(sample):
    process = sample.start(("k", 5), CXX="/nowhere/cxx")
    with pytest.raises(pytest.fail.Exception, match=r"exited with 1\n[^$]*/nowhere/cxx"):
        until(lambda: sample.compiles == 1, process)


def entry_folder(sample):
    (folder,) = sample.cache.kernels.iterdir()
    return folder


def test_sixteen_cold_processes_compile_once_and_all_load(sample):
    cxx = sample.compiler("cxx", before="sleep 0.3")
    processes = [sample.start(("k", 5), CXX=str(cxx)) for _ in range(16)]
    assert [out(process) for process in processes] == ["5"] * 16
    assert sample.compiles == 1


def test_processes_with_overlapping_work_share_it(sample):
    cxx = sample.compiler("cxx", before="sleep 0.1")
    names = ["a", "b", "c", "d"]
    orders = [names, names[::-1], ["c", "a"], ["d", "b", "a"]]
    work = [[(name, ord(name)) for name in order] for order in orders]
    processes = [sample.start(*pairs, CXX=str(cxx)) for pairs in work]
    assert [out(p) for p in processes] == [" ".join(str(n) for _, n in pairs) for pairs in work]
    assert sample.compiles == 4


def test_a_waiter_outlasts_a_slow_build_and_says_for_whom(sample):
    cxx = sample.compiler("cxx", before=gate(sample.folder))
    first = sample.start(("k", 5), CXX=str(cxx))
    until(lambda: sample.compiles == 1, first)
    second = sample.start(("k", 5), CXX=str(cxx))
    line = second.stderr.readline()
    assert re.fullmatch(rf"kgen: waiting for process {first.pid} on \S+, which is building k\n", line)
    (sample.folder / "open").touch()
    assert (out(first), out(second)) == ("5", "5")
    assert sample.compiles == 1


def test_the_variant_is_named_before_its_compiler_is_done(sample):
    cxx = sample.compiler("cxx", before=gate(sample.folder))
    process = sample.start(("k", 5), CXX=str(cxx))
    lines = [process.stderr.readline(), process.stderr.readline()]
    assert lines == ["kgen: compiling 1 kernel, 1 at once\n", "kgen: compiling k\n"]
    (sample.folder / "open").touch()
    assert out(process) == "5"


def test_a_killed_builder_blocks_nobody(sample):
    cxx = sample.compiler("cxx", before=gate(sample.folder))
    process = sample.start(("k", 5), CXX=str(cxx))
    until(lambda: sample.compiles == 1, process)
    process.kill()
    process.communicate()
    (abandoned,) = sample.cache.staging.iterdir()
    assert out(sample.start(("k", 5))) == "5"
    assert not abandoned.exists()


def test_a_killed_builder_keeps_what_it_had_finished_and_its_compilers_stop(sample):
    hold = f'grep -q "return args == nullptr ? 2" kernel.cpp && {{ {gate(sample.folder)}; }}'
    cxx = sample.compiler("cxx", before=hold)
    names = [("a", 1), ("b", 2), *((f"c{i}", 3) for i in range(4))]
    process = sample.start(*names, CXX=str(cxx), MAX_JOBS="1")
    until(lambda: sample.compiles == 2, process)
    until(lambda: len(list(sample.cache.kernels.glob("a-*"))) == 1, process)
    process.kill()
    process.communicate()
    (sample.folder / "open").touch()
    until(lambda: not stage_in_use(sample))
    assert sample.compiles == 2
    assert out(sample.start(*names, CXX=str(cxx))) == "1 2 3 3 3 3"
    assert sample.compiles == 7


def stage_in_use(sample) -> bool:
    """Whether a process still works in a staging folder."""
    stages = str(sample.cache.staging)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str((process / "cwd").readlink()).startswith(stages):
                return True
        except OSError:
            continue
    return False


def test_an_interrupt_stops_the_compilers_and_cleans_up(sample):
    cxx = sample.compiler("cxx", before=gate(sample.folder))
    process = sample.start(("k", 5), CXX=str(cxx))
    until(lambda: sample.compiles == 1, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert list(sample.cache.staging.iterdir()) == []
    until(lambda: not stage_in_use(sample))
    lock = next((sample.cache.root / "locks").iterdir())
    assert FileLock(lock).try_acquire()


def test_locks_are_never_unlinked(sample):
    sample.build(rendered("k", 1))
    (lock,) = (sample.cache.root / "locks").iterdir()
    inode = lock.stat().st_ino
    clean()
    sample.build(rendered("k", 1))
    assert lock.stat().st_ino == inode


@pytest.mark.parametrize("name", ["kernel.so", "kernel.cpp", "entry.json", "seal"])
def test_a_flipped_byte_means_a_rebuild(sample, monkeypatch, name):
    monkeypatch.setenv("CXX", str(sample.compiler("cxx")))
    (entry,) = sample.build(rendered("k", 5))
    path = entry_folder(sample) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    (again,) = sample.build(rendered("k", 5))
    assert sample.compiles == 2
    assert again.sha256 == entry.sha256
    assert path.read_bytes() != bytes(content)
    assert sample.answer(again) == 5


@pytest.mark.parametrize("name", ["kernel.so", "kernel.cpp", "entry.json", "seal"])
@pytest.mark.parametrize("left", [0, 0.5, None])
def test_a_truncated_or_missing_file_means_a_rebuild(sample, monkeypatch, name, left):
    monkeypatch.setenv("CXX", str(sample.compiler("cxx")))
    (entry,) = sample.build(rendered("k", 5))
    path = entry_folder(sample) / name
    if left is None:
        path.unlink()
    else:
        os.truncate(path, int(path.stat().st_size * left))
    (again,) = sample.build(rendered("k", 5))
    assert sample.compiles == 2
    assert again.sha256 == entry.sha256
    assert sample.answer(again) == 5


def test_touched_outputs_are_not_rebuilt(sample, monkeypatch):
    monkeypatch.setenv("CXX", str(sample.compiler("cxx")))
    (entry,) = sample.build(rendered("k", 5))
    for path in (*entry_folder(sample).iterdir(), entry_folder(sample)):
        os.utime(path, (0, 0))
    assert sample.build(rendered("k", 5)) == (entry,)
    for path in entry_folder(sample).iterdir():
        os.utime(path, (4e9, 4e9))
    assert sample.build(rendered("k", 5)) == (entry,)
    assert sample.compiles == 1


def test_changed_bytes_with_an_older_time_are_rebuilt(sample):
    header = sample.include / "x.hpp"
    item = rendered("k", text='#include "x.hpp"\n' + body("k", 5).replace("5", "X"), headers=["x.hpp"])
    header.write_text("#define X 5\n")
    (first,) = sample.build(item)
    header.write_text("#define X 6\n")
    os.utime(header, (1, 1))
    (second,) = sample.build(item)
    assert (sample.answer(first), sample.answer(second)) == (5, 6)


def test_loading_while_another_cleans(sample):
    processes = [sample.start(("k", 5)) for _ in range(4)]
    while any(process.poll() is None for process in processes):
        clean()
        time.sleep(0.01)
    for process in processes:
        stdout, stderr = process.communicate()
        # Removed between build and load: a missing file, never half of one or a wrong answer.
        assert stdout == "5\n" or "cannot open shared object file" in stderr


def test_clean_leaves_what_is_being_built(sample):
    cxx = sample.compiler("cxx", before=gate(sample.folder))
    sample.build(rendered("other", 1))
    process = sample.start(("k", 5), CXX=str(cxx))
    until(lambda: sample.compiles == 1, process)
    removed = clean()
    assert [key.rpartition("-")[0] for key in removed.keys] == ["other"]
    (sample.folder / "open").touch()
    assert out(process) == "5"


def test_a_source_cut_short_in_staging_is_never_used(sample):
    stage = sample.cache.staging / "build-dead"
    (stage / "0").mkdir(parents=True)
    (stage / "0" / "kernel.cpp").write_text(body("k", 5)[:20])
    (stage / "owner.lock").touch()
    (entry,) = sample.build(rendered("k", 5))
    assert sample.answer(entry) == 5
    assert not stage.exists()


def test_a_cache_that_cannot_be_written_is_an_error_with_a_way_out(sample, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(KgenError, match=r"K406.*Not a directory\n.*KGEN_CACHE_DIR"):
        sample.build(rendered("k", 5), cache_dir=tmp_path / "file" / "cache")
