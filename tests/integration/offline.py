"""A command without a network: in a namespace that has nothing but a loopback device."""

import os
import shutil
import subprocess

# A user who is not root may have namespaces all the same, as root of a user namespace.
UNSHARE = (shutil.which("unshare") or "unshare", *(["--map-root-user"] if os.getuid() else []))
# Whole paths: a bare machine's PATH has neither of these tools.
WITHOUT_NETWORK = (
    *(*UNSHARE, "--net", shutil.which("sh"), "-c"),
    f'{shutil.which("ip")} link set lo up && exec "$@"',
    "offline",
)


def can_cut_network() -> bool:
    """Whether this machine allows a network namespace."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    return subprocess.run([*WITHOUT_NETWORK, "true"], capture_output=True).returncode == 0
