"""A user whose home folder and environment configure other work, in a language unlike English.

Whatever of it reached a program of the lab would end or bend that program.
"""

import os
from pathlib import Path

import end_of_run

from lab_env.platform.settings import settings

KEPT = ("PATH", "CI", "PYTHONDONTWRITEBYTECODE", end_of_run.VARIABLE)
LONG_PATH = Path("a long path of somebody " * 4, "ein Ordner für Übungen")
FILES = {
    ".aws/config": "[default]\nregion = eu-nowhere-9\ns3 =\n  use_accelerate_endpoint = true\n",
    ".aws/credentials": "[other]\naws_access_key_id = theirs\naws_secret_access_key = theirs\n",
    ".locust.conf": "run-time = 1s\ntags = nothing\n",
    ".jupyter/jupyter_server_config.py": "c.ServerApp.base_url = '/theirs/'\n",
    ".ipython/profile_default/startup/first.py": "raise SystemExit('of other work')\n",
    ".config/matplotlib/matplotlibrc": "font.family: nowhere\nfigure.dpi: 7\n",
    ".config/pip/pip.conf": "[global]\ntimeout = 61\n",
    "modules/typer.py": "raise SystemExit('of other work')\n",
    "modules/startup.py": "raise SystemExit('of other work')\n",
    "spark/conf/spark-defaults.conf": "spark.master spark://nowhere:7077\n",
}


def hostile_home(folder: Path, language: str) -> dict[str, str]:
    """Make the home folder of such a user; return the user's environment.

    `language` is an ISO 639 code. The locale itself need not be installed here, so the Java of this
    environment gets it as an option.
    """
    home = folder / "höme of a learner"
    for name, text in FILES.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    temporary = folder / "other tmp"
    temporary.mkdir()
    nowhere = "http://127.0.0.1:9"
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | {
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "TZ": "Asia/Kolkata",
        "LANG": f"{language}.UTF-8",
        "LAB_ID": "room 7",
        "LAB_CACHE": str(settings().cache),
        "JAVA_TOOL_OPTIONS": f"-Duser.language={language} -Xmx300m",
        "_JAVA_OPTIONS": "-Xmx16m",
        "JDK_JAVA_OPTIONS": "-Xmx16m",
        "KAFKA_OPTS": "-Xmx16m",
        "SPARK_REMOTE": "sc://nowhere",
        "SPARK_HOME": str(home / "spark"),
        "SPARK_CONF_DIR": str(home / "spark/conf"),
        "PYSPARK_SUBMIT_ARGS": "--master spark://nowhere:7077 pyspark-shell",
        "HADOOP_CONF_DIR": str(home / "spark/conf"),
        "PYTHONPATH": str(home / "modules"),
        "PYTHONSTARTUP": str(home / "modules/startup.py"),
        "PYTHONWARNINGS": "error",
        "AWS_PROFILE": "nowhere",
        "AWS_SESSION_TOKEN": "theirs",
        "AWS_ENDPOINT_URL": nowhere,
        "AWS_ENDPOINT_URL_S3": nowhere,
        "AWS_USE_FIPS_ENDPOINT": "true",
        "LOCUST_RUN_TIME": "1s",
        "LOCUST_TAGS": "nothing",
        "MINIO_DOMAIN": "nowhere.example",
        "PGHOST": "nowhere",
        "JUPYTER_CONFIG_DIR": str(home / ".jupyter"),
        "http_proxy": nowhere,
        "HTTPS_PROXY": nowhere,
    }


def content(home: Path) -> dict[str, str]:
    """Return the text of each file below a folder, by name."""
    files = filter(Path.is_file, home.rglob("*"))
    return {str(path.relative_to(home)): path.read_text() for path in files}
