# SPDX-License-Identifier: Apache-2.0
"""steps.py -- processes that may run out of something, and the server that they share (capacity, scale).

A step reports where it is by writing lines of JSON to standard output, again and again; the last line is its result,
however it ends: it may hang, abort, or be killed for its memory. The server's key goes to its standard input, so that it
is in no argument, environment or file.
"""
import json
import os
import signal
import subprocess
import time

import child
from document import Refused

CLOSING_S = 60.0  # beyond a step's own time, to close hundreds of endpoints
POLL_S = 0.02


class Server:
    """A kv-server on loopback, which the part kv-bench-server starts and holds."""

    def __init__(self, program, args):
        self.process = subprocess.Popen(["kv-bench-server", *args], executable=program, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, preexec_fn=child.begin())
        line = self.process.stdout.readline()
        if not line:
            why = self.process.stderr.read().decode("utf-8", "replace").rstrip("\n")
            self.process.wait()
            raise Refused(why.split("\n")[-1] or "the server's process ended")
        self.address, self.psk, self.pid = (json.loads(line)[name] for name in ("address", "psk", "pid"))
        os.set_blocking(self.process.stderr.fileno(), False)

    def dead(self):
        return self.process.poll() is not None

    def files(self):
        """(open files, how many it may have)."""
        try:
            with open(f"/proc/{self.pid}/limits", encoding="ascii") as f:
                limit = next(line.split()[3] for line in f if line.startswith("Max open files"))
            return len(os.listdir(f"/proc/{self.pid}/fd")), int(limit)
        except (OSError, ValueError, StopIteration):
            return 0, 0

    def memory(self):
        try:
            with open(f"/proc/{self.pid}/statm", encoding="ascii") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return 0

    def cpu_s(self):
        """Processor time so far."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="ascii", errors="replace") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return 0.0

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Step:
    """The result of a process: told, its last line ({}: none); ended, "" where it ended by itself when it was done, else a
    sentence; killed_by, the signal that ended it (0: none); error, why it could not be started; server_memory and
    server_files, the largest of the server while it ran."""

    def __init__(self, program, args, server, timeout_s):
        self.told, self.ended, self.killed_by, self.error = {}, "", 0, None
        self.server, self.server_memory, self.server_files = server, 0, 0
        try:
            process = subprocess.Popen(args, executable=program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=child.begin())
        except OSError as error:
            self.error = error
            self.ended = f"the process of the step cannot be started: {error.strerror}" + (
                "; look at ulimit -u, and at the pids limit of a container" if error.errno == 11 else "")
            return
        try:
            process.stdin.write((server.psk + "\n").encode() if server else b"")
            process.stdin.close()
        except OSError:
            pass  # it has ended
        self._follow(process, timeout_s + CLOSING_S)
        process.stdout.close()

    def _follow(self, process, timeout_s):
        deadline, told, killed, data = time.monotonic() + timeout_s, False, False, b""
        os.set_blocking(process.stdout.fileno(), False)
        over = False
        while not over:
            over = process.poll() is not None
            data = self._take(data + (process.stdout.read() or b""))
            if child.received and not told:
                process.send_signal(signal.SIGTERM)
                told, deadline = True, min(deadline, time.monotonic() + child.ENDING_S)
            if not over and not killed and time.monotonic() >= deadline:
                process.kill()
                killed = True
            if not over:
                time.sleep(POLL_S)
        self._judge(process.returncode, killed, told)

    def _take(self, data):
        """Take the last complete line. Returns the incomplete rest."""
        *lines, rest = data.split(b"\n")
        if lines:
            self.told = json.loads(lines[-1])
            if self.server:
                self.server_memory = max(self.server_memory, self.server.memory())
                self.server_files = max(self.server_files, self.server.files()[0])
        return rest

    def _judge(self, status, killed, told):
        if killed:
            self.ended = "the step did not end in time and was killed"
        elif told and status == -signal.SIGTERM:
            self.ended = "interrupted"  # before it could receive signals itself
        elif status < 0:
            self.killed_by = -status
            self.ended = f"the process of the step was ended by signal {-status} ({signal.strsignal(-status)})" + (
                ": for lack of memory, most likely (see dmesg)" if status == -signal.SIGKILL else "")
        elif not self.told.get("final"):
            self.ended = f"the process of the step ended with status {status} before it was done"
