#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""freeze_thread.py PID NAME -- stop one thread of a process (by ptrace) while this program lives: the thread whose name begins
so. Prints "frozen". Exits with 77 if that is not allowed here."""
import ctypes
import os
import pathlib
import sys

PTRACE_SEIZE, PTRACE_INTERRUPT, WAIT_ALL = 0x4206, 0x4207, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long
tids = [int(t.name) for t in pathlib.Path(f"/proc/{sys.argv[1]}/task").iterdir()
        if (t / "comm").read_text().startswith(sys.argv[2])]
if not tids:
    sys.exit(f"no thread {sys.argv[2]}")
for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
    if libc.ptrace(request, tids[0], None, None) < 0:
        print(os.strerror(ctypes.get_errno()))
        sys.exit(77)
os.waitpid(tids[0], WAIT_ALL)
print("frozen", flush=True)
os.waitpid(tids[0], WAIT_ALL)  # until it is killed: a thread that is traced is not gone before
