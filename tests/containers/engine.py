"""Podman with its own storage in target/containers, and images made from Debian's packages: nothing
is pulled from a registry.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target/containers"


def configure():
    """Lets podman find its storage, within limits that every machine allows."""
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=8192:8192", "nproc=4096:4096"]\nlog_driver = "k8s-file"\n'
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{WORK}/networks"\n'
    )
    (WORK / "storage.conf").write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{WORK}/storage"\nrunroot = "{WORK}/run"\n')
    os.environ["CONTAINERS_CONF"] = str(WORK / "containers.conf")
    os.environ["CONTAINERS_STORAGE_CONF"] = str(WORK / "storage.conf")


def run(*words, check=True, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **more)
    if check and done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


def debian(name, packages):
    """Makes an image of a minimal Debian with these packages, unless it exists already."""
    if run("podman", "images", "--quiet", name):
        return
    archive = WORK / (name.split("/")[-1] + ".tar")
    if not archive.exists():
        print(f"making an image of Debian with {packages}", flush=True)
        run("mmdebstrap", "--variant=minbase", f"--include={packages}", "bookworm", archive)
    run("podman", "import", archive, name)
    archive.unlink()
