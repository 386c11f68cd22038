#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""seccomp_run.py PROFILE COMMAND... -- run a command under a profile as container runtimes read them: everything that it does
not name fails with its errno. Needs Debian's python3-seccomp, exits with 77 without it."""
import json
import os
import sys

try:
    import seccomp
except ImportError:
    print("python3-seccomp is not installed")
    sys.exit(77)

with open(sys.argv[1], encoding="utf-8") as f:
    profile = json.load(f)
assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
allowed = seccomp.SyscallFilter(seccomp.ERRNO(profile["defaultErrnoRet"]))
for group in profile["syscalls"]:
    assert group["action"] == "SCMP_ACT_ALLOW", "only names that are allowed are known here"
    for name in group["names"]:
        try:
            allowed.add_rule(seccomp.ALLOW, name)
        except (RuntimeError, OSError):
            print(f"libseccomp does not know {name}", file=sys.stderr)
allowed.load()
os.execvp(sys.argv[2], sys.argv[2:])
