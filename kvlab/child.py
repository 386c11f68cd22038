# SPDX-License-Identifier: Apache-2.0
"""child.py -- starts a kv-bench, and reads its report.

Each run is a process of its own, which a hang or a crash ends alone. It dies with this process, and its server with it.
A signal to this process is passed on to the run.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from document import Refused
from text import duration

ENDING_S = 20.0  # after a signal; then the run is killed
LOG_MAX, REPORT_MAX = 4096, 64 << 20
POLL_S = 0.02
PR_SET_PDEATHSIG = 1


class Interrupted(Exception):
    """A signal came; received has its number."""


received = 0


def signals_install():
    def note(number, _frame):
        global received
        received = received or number

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, note)


def begin():
    """For the new process: Ctrl-C at a terminal reaches only this one, whose end is that of the new one, too."""
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def in_child():
        os.setpgid(0, 0)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(3)

    return in_child


def _wait(process, report, log, timeout_s, log_through):
    """(killed, too long). Follows the process until its end."""
    deadline, told, killed, shown, too_long = time.monotonic() + timeout_s, False, False, 0, False
    while True:
        try:
            process.wait(POLL_S)
            over = True
        except subprocess.TimeoutExpired:
            over = False
        too_long = os.fstat(report.fileno()).st_size > REPORT_MAX
        if log_through:
            data = os.pread(log.fileno(), 1 << 20, shown)
            os.write(2, data)
            shown += len(data)
        if over:
            return killed, too_long
        if received and not told:
            process.send_signal(signal.SIGTERM)
            told, deadline = True, min(deadline, time.monotonic() + ENDING_S)
        if (time.monotonic() >= deadline or too_long) and not killed:
            process.kill()
            killed = True


def _last_line(log):
    """": " and the last line of the log that begins with our name, else its last line; "" where there is none."""
    end = os.fstat(log.fileno()).st_size
    data = os.pread(log.fileno(), LOG_MAX, max(end - LOG_MAX, 0)).decode("utf-8", "replace")
    lines = ["".join(" " if ord(c) < 0x20 else c for c in line) for line in data.split("\n") if line.strip(" ")]
    own = [line[len("kv-bench: "):] for line in lines if line.startswith("kv-bench: ")]
    return f": {(own or lines)[-1][:250]}" if lines else ""


def _document(report):
    report.seek(0)
    try:
        return json.loads(report.read().decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def report(program, args, timeout_s, timeout_option="", status_max=0, log_through=False, environment=None):
    """Run the program, and return its standard output as a JSON document. Raises Refused with a sentence that ends in the
    last line of its log, or Interrupted. status_max: with a higher exit status the report does not count."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        sys.stdout.flush()
        try:
            process = subprocess.Popen(args, executable=program, stdin=subprocess.DEVNULL, stdout=out, stderr=log, preexec_fn=begin(),
                                       env={**os.environ, **(environment or {})})
        except OSError as error:
            raise Refused(f"its process cannot be started: {error.strerror}") from None
        killed, too_long = _wait(process, out, log, timeout_s, log_through)
        if received:
            raise Interrupted
        status, line = process.returncode, _last_line(log)
        doc = _document(out) if not killed and not too_long and 0 <= status <= status_max else None
    if doc is not None:
        return doc
    if too_long:
        raise Refused(f"its report is longer than {REPORT_MAX >> 20} MiB")
    if killed:
        raise Refused(f"it was not over within {duration(timeout_s * 1e9)}{f' ({timeout_option})' if timeout_option else ''}{line}")
    if status < 0:
        raise Refused(f"its process was ended by signal {-status}{line}")
    raise Refused(f"exit status {status}{line}" if status else f"it wrote no report{line}")
