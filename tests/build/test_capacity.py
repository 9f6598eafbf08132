"""How many compilers run at once, from made-up machines."""

from __future__ import annotations

import pytest

from kgen.build import capacity
from kgen.build.progress import Silent
from kgen.diagnostics import KgenError
from tests.build.build_samples import rendered

GIGABYTE = 1 << 30
JOB = 600 << 20


@pytest.fixture(autouse=True)
def many_cores(monkeypatch):
    monkeypatch.delenv("MAX_JOBS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(16)))


def machine(root, files) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def meminfo(free: int) -> str:
    return f"MemTotal: 99999999 kB\nMemAvailable:   {free // 1024} kB\n"


def test_cores_bound_where_memory_is_plenty(tmp_path):
    machine(tmp_path, {"proc/meminfo": meminfo(100 * GIGABYTE)})
    assert capacity.job_count(None, JOB, tmp_path) == 16


def test_little_memory_means_fewer_jobs(tmp_path):
    machine(tmp_path, {"proc/meminfo": meminfo(2 * GIGABYTE)})
    assert capacity.job_count(None, JOB, tmp_path) == 3


def test_one_job_runs_even_without_memory(tmp_path):
    machine(tmp_path, {"proc/meminfo": meminfo(1 << 20)})
    assert capacity.job_count(None, JOB, tmp_path) == 1


def test_the_caller_and_max_jobs_only_lower_it(tmp_path, monkeypatch):
    machine(tmp_path, {"proc/meminfo": meminfo(100 * GIGABYTE)})
    assert capacity.job_count(5, JOB, tmp_path) == 5
    monkeypatch.setenv("MAX_JOBS", "3")
    assert capacity.job_count(5, JOB, tmp_path) == 3
    assert capacity.job_count(2, JOB, tmp_path) == 2
    monkeypatch.setenv("MAX_JOBS", "64")
    assert capacity.job_count(None, JOB, tmp_path) == 16


@pytest.mark.parametrize("value", ["0", "-1", "many", "2.5"])
def test_a_bad_max_jobs_is_named(tmp_path, monkeypatch, value):
    monkeypatch.setenv("MAX_JOBS", value)
    with pytest.raises(KgenError, match=f"K601.*MAX_JOBS is '{value}', expected an integer from 1"):
        capacity.job_count(None, JOB, tmp_path)


def test_a_control_group_of_version_2_counts(tmp_path):
    files = {
        "proc/meminfo": meminfo(100 * GIGABYTE),
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/memory.max": f"{4 * GIGABYTE}\n",
        "sys/fs/cgroup/outer/memory.current": f"{2 * GIGABYTE}\n",
        "sys/fs/cgroup/outer/memory.stat": f"anon 5\ninactive_file {GIGABYTE}\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max\n",
        "sys/fs/cgroup/outer/inner/memory.current": "7\n",
    }
    machine(tmp_path, files)
    assert capacity.available_memory(tmp_path) == 3 * GIGABYTE
    assert capacity.job_count(None, JOB, tmp_path) == 5


def test_a_control_group_of_version_1_counts(tmp_path):
    files = {
        "proc/self/cgroup": "4:memory:/box\n1:cpu:/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIGABYTE}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIGABYTE}\n",
    }
    machine(tmp_path, files)
    assert capacity.available_memory(tmp_path) == GIGABYTE


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"},
        {
            "proc/self/cgroup": "1:cpu,cpuacct:/\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
    ],
)
def test_a_quota_of_cores_counts(tmp_path, files):
    machine(tmp_path, files)
    assert capacity.cores(tmp_path) == 2


def test_a_machine_that_says_nothing_is_not_limited(tmp_path):
    assert capacity.available_memory(tmp_path) is None
    assert capacity.job_count(None, JOB, tmp_path) == 16


def test_a_build_keeps_to_the_memory_there_is(sample, monkeypatch):
    begun = []

    class Listener(Silent):
        def begin(self, total, jobs):
            begun.append((total, jobs))

    items = [rendered(f"k{i}", i) for i in range(4)]
    monkeypatch.setattr(capacity, "available_memory", lambda root: 2 * JOB + 1)
    sample.build(*items, jobs=None, progress=Listener())
    assert begun == [(4, 2)]
