"""`python -m lab_env.platform.install.pin`: rewrite the pins after a change of versions.

`--jars` fills in the checksums of versions.toml, `--go` writes go.mod and go.sum, `--packages`
writes requirements.lock.
"""

import sys

from lab_env.platform.install.go_build import pin_go_modules
from lab_env.platform.install.jars import pin_jars
from lab_env.platform.install.wheels import lock_packages

PINS = {"--jars": pin_jars, "--go": pin_go_modules, "--packages": lock_packages}

if __name__ == "__main__":
    chosen = " ".join(sys.argv[1:])
    if chosen not in PINS:
        sys.exit(f"usage: python -m lab_env.platform.install.pin {' | '.join(PINS)}")
    PINS[chosen]()
