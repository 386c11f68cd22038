# SPDX-License-Identifier: Apache-2.0
"""How clients end: close while calls are out, fork, the garbage collector, the end of the interpreter, a dead server."""

import errno
import gc
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import kvrail
from common import NativeTest, completions, freeze, fresh, nobody, server
from kvrail import _native


def listens(*address):
    with socket.socket() as s:
        return s.connect_ex(address) == 0


class CloseTest(NativeTest):
    def silent(self, **options):
        """A client whose server has stopped to answer."""
        stopped = kvrail.Server(memory_mb=64)
        self.addCleanup(stopped.kill)
        client = self.open(stopped.address, wait=True, **options)
        freeze(stopped)
        return client

    def test_close_ends_what_is_out_and_releases_buffers_and_it_can_be_drained(self):
        client = self.silent()
        buffers = [bytearray(100_000) for _ in range(10)]
        ids = [client.submit_batch_get([fresh()], [b], 60) for b in buffers]
        client.close()
        for buffer in buffers:
            buffer.append(0)
        over = client.drain_results()
        self.assertEqual(sorted(o[0] for o in over), sorted(ids))
        self.assertEqual({o[1] for o in over}, {kvrail.Closed.code})
        self.assertEqual(client.drain_completions(), [])

    def test_a_thread_that_polls_sees_the_end(self):
        client = self.silent()
        client.submit_batch_exists(["a"], 60)
        over = []
        thread = threading.Thread(target=lambda: over.extend(completions(client)))
        thread.start()
        client.close()
        thread.join(30)
        self.assertEqual([o[1] for o in over], [kvrail.Closed.code])

    def test_after_close_calls_are_refused_and_close_is_idempotent(self):
        self.client.close()
        self.client.close()
        self.assertTrue(self.client.closed)
        for call in (
            lambda: self.client.submit_batch_exists(["a"]),
            lambda: self.client.submit_batch_set(["a"], [b"v"]),
            lambda: self.client.register(bytearray(10)),
            self.client.counters,
            self.client.info,
        ):
            with self.assertRaisesRegex(kvrail.Closed, "the client is closed"):
                call()
        self.assertFalse(self.client.cancel(1))
        self.assertGreaterEqual(self.client.event_fd(), 0)

    def test_many_threads_close_while_others_submit_and_register(self):
        for _ in range(10):
            client = self.open(depth=64)
            wrong, begun = [], threading.Barrier(6)

            def work(number):
                area = bytearray(8192)
                begun.wait()
                try:
                    while True:
                        if number:
                            client.register(area).unregister()
                        else:
                            try:
                                client.submit_batch_set([fresh()], [b"v" * 5000])
                            except kvrail.Busy:
                                client.drain_results()
                except kvrail.Closed:
                    pass
                except BaseException as error:
                    wrong.append(error)
                area.append(0)

            def close():
                begun.wait()
                client.close()

            threads = [threading.Thread(target=work, args=(n,)) for n in (0, 0, 1)]
            threads += [threading.Thread(target=close) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            self.assertEqual(wrong, [])
            self.assertFalse(any(t.is_alive() for t in threads))

    def test_eight_threads_use_a_client_that_is_closed_under_them(self):
        client = kvrail.Client(server().address, num_clients=1)
        key, wrong, begun = fresh(), [], threading.Barrier(9)
        client.put(key, b"v")
        calls = (
            lambda: client.get(key),
            lambda: client.put(key, b"v"),
            lambda: client.exists([key]),
            lambda: client.register(bytearray(10)),
            lambda: client.call_bound(1),
            client.counters,
            client.info,
            client.servers,
        )

        def work():
            begun.wait()
            while not client.closed:
                for call in calls:
                    try:
                        call()
                    except kvrail.Closed:
                        pass
                    except BaseException as error:
                        wrong.append(error)
                        return

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        begun.wait()
        for _ in range(20):
            client.exists([key])
        client.close()
        for thread in threads:
            thread.join(60)
        self.assertEqual(wrong, [])
        self.assertFalse(any(t.is_alive() for t in threads))

    def test_unregister_beside_close_returns_when_the_memory_is_free(self):
        stopped = kvrail.Server(memory_mb=64)
        self.addCleanup(stopped.kill)
        client = self.open(stopped.address, wait=True)
        area = bytearray(100_000)
        region = client.register(area)
        freeze(stopped)
        thread = threading.Thread(target=client.close)
        thread.start()  # it takes the second of its goodbye
        while not client.closed:
            time.sleep(0.001)
        region.unregister()
        self.assertFalse(region.registered)
        area.append(0)
        thread.join(30)

    def test_an_exporter_written_in_python_may_close_the_client(self):
        if sys.version_info < (3, 12):
            self.skipTest("Python has __buffer__ from 3.12")
        client = self.open()

        class Evil:
            def __buffer__(self, flags):
                client.close()
                return memoryview(bytearray(4))

        with self.assertRaises(kvrail.Closed):
            client.submit_batch_get(["a"], [Evil()])

    def test_an_interrupt_of_an_exporter_stays_one(self):
        if sys.version_info < (3, 12):
            self.skipTest("Python has __buffer__ from 3.12")
        client, error = self.open(), KeyboardInterrupt()

        class Interrupted:
            def __buffer__(self, flags):
                raise error

        with self.assertRaises(KeyboardInterrupt):
            client.submit_batch_get(["a"], [Interrupted()])
        error = BufferError("no")
        with self.assertRaisesRegex(ValueError, r"buffers\[0\] \(Interrupted\) is not .*: no"):
            client.submit_batch_get(["a"], [Interrupted()])

    def test_the_finalizer_of_a_buffer_may_close_the_client_that_closes(self):
        script = """
import kvrail.client, sys
client = kvrail._native.Client(sys.argv[1], num_clients=1)
class Owner(bytearray):
    def __del__(self):
        client.close()
id = client.submit_batch_set(["finalizer"], [Owner(b"value")])
client.close()
assert [over[0] for over in client.drain_results()] == [id]
print("over")
"""
        run = subprocess.run(
            [sys.executable, "-c", script, server().address],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((run.returncode, run.stdout), (0, "over\n"), run.stderr)

    def test_descriptors_and_threads_go_with_the_object(self):
        def open_close():
            client = _native.Client(server().address, num_clients=1)
            client.submit_batch_exists(["a"])
            client.close()

        def name(path, read):
            try:
                return read(path)
            except OSError:  # it is gone, or it is the descriptor of the listing
                return None

        def held():
            return {
                folder: [name(f"/proc/self/{folder}/{entry}{rest}", read) for entry in os.listdir("/proc/self/" + folder)]
                for folder, rest, read in (
                    ("fd", "", os.readlink),
                    ("task", "/comm", lambda path: pathlib.Path(path).read_text().strip()),
                )
            }

        open_close()
        gc.collect()
        before = held()
        for _ in range(5):
            open_close()
        # The kernel wakes who joins a thread before it takes the thread from the list.
        until = time.monotonic() + 20
        while (now := held()) and time.monotonic() < until:
            if all(len(now[folder]) <= len(before[folder]) for folder in now):
                break
            time.sleep(0.05)
        for folder in now:
            self.assertLessEqual(len(now[folder]), len(before[folder]), f"{folder}: {before[folder]}, now {now[folder]}")


class CollectedTest(unittest.TestCase):
    def forgotten(self, make):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            make()
            gc.collect()
        return [w for w in seen if issubclass(w.category, ResourceWarning)]

    def test_a_client_that_was_forgotten_is_closed_with_a_warning(self):
        buffer = bytearray(100)

        def make():
            client = _native.Client(server().address, num_clients=1)
            client.submit_batch_get([fresh()], [buffer])

        seen = self.forgotten(make)
        self.assertEqual(len(seen), 1, seen)
        self.assertIn("was not closed", str(seen[0].message))
        buffer.append(0)

    def test_also_one_in_a_circle(self):
        class Mine(_native.Client):
            pass

        area = bytearray(8192)

        def make():
            client = Mine(server().address, num_clients=1)
            client.itself = client
            client.register(area)

        self.assertEqual(len(self.forgotten(make)), 1)
        area.append(0)

    def test_also_one_that_keeps_its_registration(self):
        class Mine(_native.Client):
            pass

        area = bytearray(8192)

        def make():
            client = Mine(server().address, num_clients=1)
            client.region = client.register(area)

        self.assertEqual(len(self.forgotten(make)), 1)
        area.append(0)

    def test_the_blocking_client_too(self):
        def make():
            client = kvrail.Client(server().address, num_clients=1)
            client.exists(["a"])

        before = threading.active_count()
        self.assertEqual(len(self.forgotten(make)), 1)
        self.assertEqual(threading.active_count(), before)

    def test_a_closed_one_is_silent(self):
        self.assertEqual(
            self.forgotten(lambda: kvrail.Client(server().address, num_clients=1).close()), []
        )

    def test_one_that_failed_to_open_is_silent(self):
        def make():
            with self.assertRaises(kvrail.Error):
                kvrail.Client("nowhere:x")

        self.assertEqual(self.forgotten(make), [])


class ForkTest(NativeTest):
    def child(self, body):
        """Runs body in a child of fork; its words, where it failed."""
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads, from 3.12
            pid = os.fork()
        if pid == 0:
            try:
                os.close(read)
                try:
                    body()
                except BaseException as error:
                    os.write(write, repr(error).encode()[:4000])
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as file:
            text = file.read()
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(text, "")

    def test_a_child_is_refused_and_the_parent_goes_on(self):
        buffer, blocking = bytearray(4), kvrail.Client(server().address, num_clients=1)
        self.addCleanup(blocking.close)
        key = fresh()
        blocking.put(key, b"1234")
        region = self.client.register(bytearray(8192))
        id = self.client.submit_batch_get([key], [buffer])

        def body():
            for call in (
                lambda: self.client.submit_batch_exists(["a"]),
                lambda: self.client.submit_batch_get(["a"], [bytearray(4)]),
                self.client.drain_results,
                self.client.event_fd,
                self.client.counters,
                lambda: self.client.cancel(id),
                lambda: self.client.register(bytearray(10)),
                lambda: blocking.get(key),
            ):
                try:
                    call()
                except kvrail.Closed:
                    pass
                else:
                    raise AssertionError(f"{call} did not raise")
            assert self.client.closed
            self.client.close()
            blocking.close()
            region.unregister()
            self.client = None  # frees the child's copy
            gc.collect()

        self.child(body)
        self.assertEqual(completions(self.client)[0], (id, 0, [4]))
        self.assertEqual(blocking.get(key), b"1234")

    def test_a_lock_that_a_thread_of_the_parent_holds_does_not_stop_the_child(self):
        blocking = kvrail.Client(server().address, num_clients=1)
        self.addCleanup(blocking.close)
        blocking.exists(["a"])

        def body():
            try:
                blocking.exists(["a"])
            except kvrail.Closed:
                blocking.close()
                return
            raise AssertionError("it did not raise")

        with blocking._reaper.lock:  # as if the reaper held it
            self.child(body)

    def test_a_child_ends_as_programs_do_beside_calls_of_threads(self):
        script = """
import kvrail, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads, from 3.12
client, native = kvrail.Client(sys.argv[1], num_clients=1), kvrail._native.Client(sys.argv[1], num_clients=1)
native.register(bytearray(8192))
client.put("ends", bytes(100_000))
stop = threading.Event()
def work():
    buffer = bytearray(100_000)
    while not stop.is_set():
        client.get("ends", buffer)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
stop.set()
for thread in threads: thread.join()
client.close(); native.close()
"""
        run = subprocess.run(
            [sys.executable, "-c", script, server().address], capture_output=True, timeout=120
        )
        self.assertEqual((run.returncode, run.stderr), (0, b""))

    def test_a_child_may_open_one_of_its_own(self):
        address = server().address

        def body():
            with kvrail.Client(address, num_clients=1) as client:
                client.put("child", b"own")
                assert client.get("child") == b"own"

        self.child(body)


class InterpreterTest(unittest.TestCase):
    def run_python(self, body):
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", body, server().address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
            text=True,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_the_interpreter_ends_with_clients_open_and_calls_out(self):
        self.run_python(
            "import kvrail, sys\n"
            "from kvrail import _native\n"
            "c = _native.Client(sys.argv[1], num_clients=1)\n"
            "b = kvrail.Client(sys.argv[1], num_clients=1)\n"
            "b.put('end', b'x' * 100000)\n"
            "for i in range(100): c.submit_batch_get(['end'], [bytearray(100000)])\n"
        )

    def test_it_ends_beside_daemon_threads_in_calls(self):
        self.run_python(
            "import kvrail, sys, threading\n"
            "from kvrail import _native\n"
            "c, n = kvrail.Client(sys.argv[1], num_clients=1), _native.Client(sys.argv[1], num_clients=1)\n"
            "c.put('daemons', bytes(50_000))\n"
            "kept, busy = [], threading.Barrier(7)\n"
            "def get(): c.get('daemons', bytearray(50_000))\n"
            "def region(): n.register(bytearray(8192)).unregister()\n"
            "def many():\n"
            "    kept.append(_native.Client(sys.argv[1], num_clients=1))\n"
            "    kept[-1].submit_batch_get(['daemons'], [bytearray(50_000)])\n"
            "    if len(kept) == 30: threading.Event().wait()\n"
            "def work(step):\n"
            "    try:\n"
            "        step(); busy.wait()\n"
            "        while True: step()\n"
            "    except kvrail.Closed: pass\n"
            "for step in (get, get, get, region, region, many):\n"
            "    threading.Thread(target=work, args=(step,), daemon=True).start()\n"
            "busy.wait()\n"
        )

    def test_signal_handlers_stay_what_they_were(self):
        out = self.run_python(
            "import ctypes, faulthandler, sys, threading\n"
            "faulthandler.enable()\n"
            "def handlers():\n"
            "    room = (ctypes.c_void_p * 64)()\n"
            "    ask = ctypes.CDLL(None).sigaction\n"
            "    return [(ask(n, None, room), room[0])[1] for n in (2, 4, 6, 7, 8, 11, 15)]\n"
            "before = handlers()\n"
            "thread = threading.Thread(target=__import__, args=('kvrail',))\n"
            "thread.start(); thread.join()\n"
            "import kvrail\n"
            "print(handlers() == before)\n"
            "with kvrail.Client(sys.argv[1], num_clients=1) as client:\n"
            "    client.exists(['a'])\n"
            "    print(handlers() == before)\n"
            "print(handlers() == before)\n"
        )
        self.assertEqual(out, "True\n" * 3)

    def test_a_sub_interpreter_is_refused(self):
        try:
            import _interpreters as sub  # from Python 3.13 on
        except ImportError:
            import _xxsubinterpreters as sub
        import kvrail as package

        root = os.path.dirname(os.path.dirname(package.__file__))
        where = sub.create()
        self.addCleanup(sub.destroy, where)
        code = (
            f"import sys; sys.path.insert(0, {root!r})\n"
            "try:\n    import kvrail\n"
            "except ImportError as e:\n    assert 'interpreter' in str(e) and 'apt-get' not in str(e), e\n"
            "else:\n    raise AssertionError('no error')\n"
        )
        self.assertIsNone(sub.run_string(where, code))


class ServerTest(NativeTest):
    def test_a_server_that_dies_and_comes_back(self):
        mortal = kvrail.Server(memory_mb=64)
        self.addCleanup(mortal.close)
        client = self.open(mortal.address, wait=True)
        value = bytes(200_000)
        ids = [client.submit_batch_set([f"k{i}"], [value]) for i in range(50)]
        mortal.kill()
        ids += [client.submit_batch_get(["k"], [bytearray(4)], 5) for _ in range(50)]
        over = completions(client, 100, seconds=60)
        self.assertEqual(sorted(o[0] for o in over), sorted(ids))
        mortal.restart()
        code = None
        while code != 0:  # until the client has it again; the harness bounds the wait
            client.submit_batch_set(["back"], [b"again"], 5)
            code = completions(client)[0][1]
            self.assertIn(code, (0, kvrail.PeerDown.code, kvrail.Timeout.code))
        self.assertEqual(mortal.stop(), 0)

    def test_no_connection_gets_the_port_of_a_killed_server(self):
        with kvrail.Server(64) as mortal, socket.create_server(("127.0.0.1", 0)) as other:
            address = mortal.address
            host, _, port = address.rpartition(":")
            mortal.kill()
            while listens(host, int(port)):  # the kernel closes what a ring held after the process is gone
                time.sleep(0.01)
            # The kernel could have chosen it for this one; then it would be in the server's way for a minute.
            with self.assertRaises(OSError) as failed:
                source = (host, int(port))
                socket.create_connection(other.getsockname(), source_address=source).close()
            self.assertEqual(failed.exception.errno, errno.EADDRINUSE)
            mortal.restart()
            self.assertEqual(mortal.address, address)

    def test_a_server_outlives_the_thread_that_started_it_and_not_its_object(self):
        started = []
        thread = threading.Thread(target=lambda: started.append(kvrail.Server(memory_mb=64)))
        thread.start()
        thread.join()
        with kvrail.Client(started[0].address, wait=True, num_clients=1) as client:
            client.put("thread", b"v")
            self.assertTrue(started[0].running())
        pid = started.pop().pid
        gc.collect()
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)

    def test_a_server_that_a_thread_of_asyncio_started_dies_with_a_killed_program(self):
        script = """
import asyncio, kvrail, sys
async def main():
    server = await asyncio.to_thread(kvrail.Server, 64)
    print(server.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as program:
            self.addCleanup(program.kill)
            pid = int(program.stdout.readline())
            watched = os.pidfd_open(pid)
            self.addCleanup(os.close, watched)
            program.kill()
            ended = bool(select.select([watched], [], [], 60)[0])
            if not ended:
                signal.pidfd_send_signal(watched, signal.SIGKILL)
            self.assertTrue(ended, "it is an orphan")

    def test_a_child_of_fork_starts_servers_from_threads_too(self):
        script = """
import kvrail, os, threading
def in_a_thread():
    servers = []
    thread = threading.Thread(target=lambda: servers.append(kvrail.Server(64)))
    thread.start(); thread.join(60)
    servers[0].close()
in_a_thread()
pid = os.fork()
if pid == 0:
    in_a_thread()
    os._exit(7)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120)
        self.assertEqual(run.returncode, 7, run.stderr)

    def test_a_child_of_fork_leaves_the_server_to_its_parent(self):
        script = """
import kvrail, os, sys
with kvrail.Server(64) as server:
    for end in ("stop", "kill", "close", "restart", "nothing"):
        pid = os.fork()
        if pid == 0:
            if end == "restart":
                try:
                    server.restart()
                except kvrail.Error:
                    pass  # the address is in use
            elif end != "nothing":
                getattr(server, end)()
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7, end
        assert server.running() and os.path.exists(server.log_path), end
    with kvrail.Client(server.address, wait=True, num_clients=1) as client:
        client.put("key", b"value")
assert not os.path.exists(server.log_path)
print("over")
"""
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, b"over\n", b""))

    def test_a_program_without_standard_descriptors_starts_a_server(self):
        script = """
import kvrail, os, sys
for fd in range(3):
    os.close(fd)
with kvrail.Server(64, startup_timeout=60) as server:
    with kvrail.Client(server.address, wait=True, num_clients=1) as client:
        client.put("key", b"value")
os._exit(7)
"""
        run = subprocess.run([sys.executable, "-c", script], timeout=120)
        self.assertEqual(run.returncode, 7)

    def test_a_server_that_says_nothing_has_the_time_it_was_given(self):
        with tempfile.TemporaryDirectory() as folder:
            program, pid = pathlib.Path(folder, "mute"), pathlib.Path(folder, "pid")
            program.write_text(
                "#!/usr/bin/env bash\n"
                f"echo $$ >{pid}\n"
                'for option; do case $option in --ready-fd=*) eval "exec ${option#*=}>&-" ;; esac; done\n'
                "exec sleep 600\n"
            )
            program.chmod(0o755)
            with self.assertRaisesRegex(kvrail.Error, "was not ready in 1.5 s"):
                kvrail.Server(binary=program, startup_timeout=1.5)
            with self.assertRaises(ProcessLookupError):
                os.kill(int(pid.read_text()), 0)

    def test_a_server_that_cannot_start_says_why(self):
        with self.assertRaisesRegex(kvrail.Error, "kv-server ended with status 2"):
            kvrail.Server(no_such_option=1)
        with self.assertRaises(FileNotFoundError):
            kvrail.Server(binary="/no/such/kv-server")

    def test_wait_raises_where_nobody_is(self):
        address, held = nobody()
        self.addCleanup(held.close)
        with self.assertRaises(kvrail.PeerDown):
            self.open(address, wait=True)


if __name__ == "__main__":
    unittest.main()
