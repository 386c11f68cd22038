#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""no_uring.py [--call NAME] COMMAND... -- run a command in which io_uring_setup answers EPERM, as under a container's seccomp profile;
with --call enter or register, that call alone; with --call memfd_create or madvise, that one."""
import ctypes
import os
import platform
import struct
import sys

CALLS = {"setup": 425, "enter": 426, "register": 427}  # the same on every architecture
CALLS.update({"memfd_create": 319, "madvise": 28} if platform.machine() == "x86_64" else {"memfd_create": 279, "madvise": 233})
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO_EPERM = 0x7FFF0000, 0x00050001


def instruction(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)


call = "setup"
if sys.argv[1] == "--call":
    call = sys.argv[2]
    del sys.argv[1:3]
program = (instruction(LOAD, 0, 0, 0) + instruction(JUMP_EQUAL, 0, 1, CALLS[call])
           + instruction(RETURN, 0, 0, ERRNO_EPERM) + instruction(RETURN, 0, 0, ALLOW))
buffer = ctypes.create_string_buffer(program, len(program))


class Filter(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
wanted = Filter(len(program) // 8, ctypes.addressof(buffer))
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(wanted), 0, 0):
    sys.exit("no_uring.py: seccomp: " + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
