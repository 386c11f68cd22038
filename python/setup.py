# SPDX-License-Identifier: Apache-2.0
"""How the extension is built.

It links to an installed libkvrail of the same version, where pkg-config finds one, or else to the static library of the
source tree that this folder is part of, which is made first. libfabric and the other libraries stay dynamic in both
cases: a process must have exactly one libfabric. KVRAIL_LIBRARY=installed or tree chooses.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from typing import NoReturn

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent
IN_TREE = (TREE / "kvclient" / "kvclient.h").is_file()
VERSION = re.search(r'^version = "(.*)"', (HERE / "pyproject.toml").read_text(), re.M).group(1)
PACKAGES = (
    "on Debian and Ubuntu: apt-get install build-essential pkg-config python3-dev libfabric-dev libibverbs-dev "
    "liburing-dev libssl-dev libxxhash-dev libjansson-dev libedit-dev zlib1g-dev"
)


def fail(sentence: str) -> NoReturn:
    sys.exit("kvrail: " + sentence)


def output(*command, env=None):
    """What a command prints, or None where it fails or is not there."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, text=True
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def installed_flags():
    """Flags of an installed libkvrail of this version, or None."""
    if output("pkg-config", "--exact-version=" + VERSION, "kvrail") is None:
        return None
    return (
        shlex.split(output("pkg-config", "--cflags", "kvrail")),
        shlex.split(output("pkg-config", "--libs", "kvrail")),
    )


def tree_flags():
    """Make the static library of the tree; its flags."""
    for tool in ("make", "cc", "pkg-config"):
        if not shutil.which(tool):
            fail(f"there is no {tool} to build the client library with; {PACKAGES}")
    missing = [
        m
        for m in ("libfabric", "liburing", "openssl", "libxxhash")
        if output("pkg-config", "--exists", m) is None
    ]
    if "libfabric" in missing and pathlib.Path("/opt/amazon/efa").is_dir():
        missing.remove("libfabric")
    if missing:
        fail(f"the headers of {', '.join(missing)} are missing; {PACKAGES}")
    env = {
        k: v
        for k, v in os.environ.items()
        if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS", "LDFLAGS", "MODE")
    }
    done = subprocess.run(["make", "-C", str(TREE), "-j2", "static"], env=env)
    if done.returncode != 0:
        fail(f"the client library could not be built (see above); {PACKAGES}")
    where, link = output("make", "-s", "-C", str(TREE), "static-flags", env=env).split(" ", 1)
    where = TREE / where
    return ["-I" + str(where / "include")], [
        str(where / "libkvrail.a"),
        "-Wl,--exclude-libs,ALL",
        *shlex.split(link),
    ]


class Modules(build_py):
    """build_py that leaves nothing of an earlier build in the package."""

    def run(self):
        if not getattr(self, "editable_mode", False):
            shutil.rmtree(os.path.join(self.build_lib, "kvrail"), ignore_errors=True)
        super().run()


class Build(build_ext):
    """build_ext that knows where the client library is."""

    def build_extension(self, ext):
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            fail(
                "this Python has no GIL, and the extension needs one: use a build of Python with the GIL"
            )
        if not pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file():
            fail(f"Python.h is missing: this Python has no headers; {PACKAGES}")
        which = os.environ.get("KVRAIL_LIBRARY", "")
        if which not in ("", "installed", "tree"):
            fail(f"KVRAIL_LIBRARY is 'installed' or 'tree', not '{which}'")
        flags = None if which == "tree" else installed_flags()
        if flags is None and which == "installed":
            fail(
                f"pkg-config finds no installed kvrail {VERSION}: run `make install` or install libkvrail-dev"
            )
        if flags is None and not IN_TREE:
            fail(
                f"pkg-config finds no installed kvrail {VERSION}, and this is not KVRail's source tree: install "
                "libkvrail-dev or run `make install` in the tree, or run pip in the tree"
            )
        cflags, link = flags or tree_flags()
        ext.extra_compile_args += cflags
        ext.extra_link_args += link
        self.force = True  # a change of the library is no change of a source
        super().build_extension(ext)


native = Extension(
    "kvrail._native",
    [
        f"kvrail/{name}.c"
        for name in (
            "_native _batch _submit _place _completions _region _client _report _one_key _space _view _events".split()
        )
    ],
    define_macros=[("Py_LIMITED_API", "0x030B0000"), ("_GNU_SOURCE", None)],
    extra_compile_args=[
        "-std=gnu11",
        "-O2",
        "-pthread",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Wshadow",
    ]
    + shlex.split(os.environ.get("KVRAIL_PYTHON_CFLAGS", "")),
    extra_link_args=["-pthread", "-Wl,-z,relro,-z,now"],
    py_limited_api=True,
)
options = {"bdist_wheel": {"py_limited_api": "cp311"}}
if IN_TREE and os.access(TREE, os.W_OK):
    (TREE / "build" / "python").mkdir(parents=True, exist_ok=True)
    options["build"] = {"build_base": str(TREE / "build" / "python")}
    options["egg_info"] = {"egg_base": str(TREE / "build" / "python")}

setup(ext_modules=[native], cmdclass={"build_ext": Build, "build_py": Modules}, options=options)
