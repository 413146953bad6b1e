"""JupyterLab counts as running only if it answers; a left-over server file is not enough."""

import json
import os

from own_lab import free_ports

from lab_env.course.jupyterlab.running import running_jupyterlab
from lab_env.course.jupyterlab.server import token
from lab_env.platform.settings import settings


def test_the_file_of_a_killed_jupyterlab_is_no_jupyterlab(home, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    (port,) = free_ports(1)
    known = {
        "hostname": "127.0.0.1",
        "pid": os.getpid(),  # another program has its process id by now
        "port": port,
        "root_dir": str(settings().work.parent),
        "token": token(),
    }
    (tmp_path / f"jpserver-{os.getpid()}.json").write_text(json.dumps(known))
    assert running_jupyterlab() is None
