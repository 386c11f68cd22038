# SPDX-License-Identifier: Apache-2.0
"""fake_server.py PROTOCOL FAULT -- a redis or memcached that stores and gives, for the tests of kv-bench versus and kvreplay.

FAULT: none; flip (the last byte of a value is wrong), middle (one in the middle), short (a byte is missing), miss (nothing is found),
close (the connection ends at the first GET); stall (so does all speech); slow (a GET takes 50 ms); full (nothing is stored); auth (a password is
wanted). Prints its port.
"""
import contextlib
import os
import resource
import socket
import sys
import threading
import time

protocol, fault = sys.argv[1:3]
values = {}


def damaged(value):
    if fault == "flip":
        return value[:-1] + bytes([value[-1] ^ 1])
    if fault == "middle":
        at = len(value) // 2
        return value[:at] + bytes([value[at] ^ 1]) + value[at + 1:]
    return value[:-1] if fault == "short" else value


def redis_command(f):
    line = f.readline()
    if line.startswith(b"INFO cpu"):
        used = resource.getrusage(resource.RUSAGE_SELF)  # as redis does, and finer than a tick
        text = b"used_cpu_sys:%.6f\r\nused_cpu_user:%.6f\r\n" % (used.ru_stime, used.ru_utime)
        return b"$%d\r\n%s\r\n" % (len(text), text)
    if line.startswith(b"INFO"):
        text = b"redis_version:0.fake\r\nprocess_id:%d\r\n" % os.getpid()
        return b"$%d\r\n%s\r\n" % (len(text), text)
    if line.startswith(b"CONFIG"):
        return b"*2\r\n$10\r\nio-threads\r\n$1\r\n1\r\n"
    n = int(line[1:])
    args = []
    for _ in range(n):
        args.append(f.read(int(f.readline()[1:])))
        f.read(2)
    if fault == "auth":
        return b"-NOAUTH Authentication required.\r\n"
    if args[0] == b"SET" and fault == "full":
        return b"-OOM\r\n"
    if args[0] == b"DBSIZE":
        return b":%d\r\n" % len(values)
    if args[0] == b"DEL":
        return b":%d\r\n" % (values.pop(args[1], None) is not None)
    if args[0] == b"EXISTS":
        return b":%d\r\n" % (args[1] in values)
    if args[0] == b"SET":
        values[args[1]] = args[2]
        return b"+OK\r\n"
    if fault == "miss":
        return b"$-1\r\n"
    value = damaged(values[args[1]])
    return b"$%d\r\n%s\r\n" % (len(value), value)


def memcached_command(f):
    args = f.readline().split()
    if args[0] == b"version":
        return b"VERSION 0.fake\r\n"
    if args == [b"stats"]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return b"STAT pid %d\r\nSTAT version 0.fake\r\nSTAT threads 3\r\nSTAT rusage_user %.6f\r\nSTAT rusage_system %.6f\r\nEND\r\n" % (os.getpid(), used.ru_utime, used.ru_stime)
    if args[0] == b"delete":
        return b"DELETED\r\n" if values.pop(args[1], None) is not None else b"NOT_FOUND\r\n"
    if args[0] == b"mg":
        return b"HD\r\n" if args[1] in values else b"EN\r\n"
    if args[0] == b"set":
        values[args[1]] = f.read(int(args[4]))
        f.read(2)
        return b"STORED\r\n"
    if fault == "miss":
        return b"END\r\n"
    value = damaged(values[args[1]])
    return b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (args[1], len(value), value)


def serve(conn):
    command = redis_command if protocol == "redis" else memcached_command
    with contextlib.suppress(ConnectionError), conn, conn.makefile("rb") as f:
        while f.peek(1):
            answer = command(f)
            if fault == "close" and len(answer) > 100:
                return
            if fault == "stall" and len(answer) > 100:
                time.sleep(3600)
            if fault == "slow" and len(answer) > 100:
                time.sleep(0.05)
            conn.sendall(answer)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
