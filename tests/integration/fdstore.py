#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fdstore.py MAX COMMAND... -- a service manager of one service, as far as its descriptor store goes (sd_notify(3),
sd_pid_notify_with_fds(3)): it keeps MAX descriptors at most, and gives them to each process that it starts.

SIGUSR1 ends the process by SIGTERM, SIGUSR2 by SIGKILL, and starts the next one; SIGTERM ends both. Each process that
starts is a line with the names of the descriptors it gets, on descriptor 8. Descriptors 8 and 9 are the caller's."""

import array
import fcntl
import os
import select
import signal
import socket
import sys
import tempfile

FIRST = 3  # SD_LISTEN_FDS_START
ABOVE = 64  # where descriptors are put aside


def moved(fd):
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, ABOVE)
    os.close(fd)
    return high


def take(listener, store, most):
    """One message: keep or forget descriptors."""
    data, control, _, _ = listener.recvmsg(4096, socket.CMSG_SPACE(16 * 4))
    fds = array.array("i")
    for level, kind, value in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(value)
    lines = data.decode().splitlines()
    name = next((line[len("FDNAME="):] for line in lines if line.startswith("FDNAME=")), "stored")
    if "FDSTOREREMOVE=1" in lines:
        store[:] = [kept for kept in store if kept[0] != name]
    for fd in fds:
        if "FDSTORE=1" in lines and len(store) < most:
            store.append((name, moved(fd)))
        else:
            os.close(fd)


def start(command, store):
    os.write(8, (" ".join(name for name, _ in store) + "\n").encode())
    pid = os.fork()
    if pid:
        return pid
    os.closerange(FIRST, 8)
    for at, (_, fd) in enumerate(store):
        os.dup2(fd, FIRST + at)
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(store)),
                      LISTEN_FDNAMES=":".join(name for name, _ in store))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.execv(command[0], command)


def main():
    most, command, store = int(sys.argv[1]), sys.argv[2:], []
    asked = {signal.SIGUSR1: signal.SIGTERM, signal.SIGUSR2: signal.SIGKILL, signal.SIGTERM: signal.SIGTERM}
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/notify"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(path)
        os.environ["NOTIFY_SOCKET"] = path
        woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        woken = moved(woken)
        signal.set_wakeup_fd(wake)
        for number in (*asked, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        pid, last = start(command, store), False
        while True:
            ready, _, _ = select.select([listener, woken], [], [])
            if listener in ready:
                take(listener, store, most)
            for number in os.read(woken, 64) if woken in ready else b"":
                if number in asked:
                    last = number == signal.SIGTERM
                    os.kill(pid, asked[number])
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                continue
            if last:
                return 0
            while select.select([listener], [], [], 0)[0]:
                take(listener, store, most)
            pid = start(command, store)


sys.exit(main())
