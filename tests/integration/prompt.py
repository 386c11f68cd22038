#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""prompt.py CASE KV-CLIENT [ARGS...] -- kv-client at a terminal; prompt.sh names the cases."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time

from terminal import Terminal, session

case, argv = sys.argv[1], sys.argv[2:]
LOCALES = [{}, {"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "no-such-locale"}, {"LANG": "", "TERM": ""},
           {"LC_ALL": "C", "TERM": "dumb"}, {"LC_ALL": "C.UTF-8", "TERM": "xterm"}]
# Keys as they are typed: UTF-8, Latin-1, a C1 control, wide and combining characters, what the editor uses for bytes.
KEYS = ["grüße".encode(), "grüße".encode("latin-1"), b"c1\xc2\x85z", "漢字😀e\u0301".encode(), b"\xff\xfe\x80x", b"cut\xe6\xbc",
        "\U000e0f85-\U000e0fff".encode(), "ÿþ\u00a0\u00ad".encode()]


def kv(*args, **more):
    return subprocess.run([*argv, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, **more)


def quoted(command, key, value=b""):
    return command + b" '" + key + b"'" + (b" '" + value + b"'" if value else b"")


def piped(lines):
    """What the commands print when they come from a pipe, which keeps the bytes."""
    return kv(input=b"\n".join(lines) + b"\n").stdout


def bytes_kept():
    """Keys and values that are typed are those that another client finds, in every locale."""
    near = {key.decode("ascii", "ignore").encode() or b"?" for key in KEYS}  # keys that were operated on before
    nears = [quoted(b"put", key, b"near") for key in near]
    for n, env in enumerate(LOCALES):
        values = {key: b"v%d-" % n + key for key in KEYS}
        piped(nears)
        status, out = session(argv, [quoted(b"put", key, value) for key, value in values.items()], env)
        assert status == 0, (status, out)
        for key, value in values.items():
            assert piped([quoted(b"get", key)]) == value + b"\n", (env, key, out)
        session(argv, [quoted(b"delete", key) for key in KEYS], env)
        found = piped([quoted(b"exists", key) for key in KEYS] + [quoted(b"exists", key) for key in near])
        assert [line[:1] for line in found.splitlines()] == [b"0"] * len(KEYS) + [b"1"] * len(near), (env, found)


def recalled():
    """A line that comes back from the history, of this prompt or of an earlier one, is the line that was typed."""
    for key in KEYS[:4]:
        piped([quoted(b"put", key, b"1")])
        session(argv, [quoted(b"delete", key), quoted(b"exists", key), b"\x10\x10"], {"LC_ALL": "C"})
        piped([quoted(b"put", key, b"1")])
        session(argv, [b"\x10"], {"LC_ALL": "C.UTF-8"})
        assert piped([quoted(b"exists", key)]).startswith(b"0 "), key


def completed():
    """Tab completes a command behind which a key of any bytes stands."""
    piped([quoted(b"put", key, b"1") for key in KEYS])
    _, out = session(argv, [quoted(b"exis\t", key) for key in KEYS], {})
    assert out.count(b"\r\n1 ") == len(KEYS), out


def history():
    """Lines are kept in a file that is its owner's alone, without values; Tab completes commands."""
    _, out = session(argv, [b"pi\tg", b"put kept-key secret", b"ex\tkept-key"], {})
    assert b"every shard answered" in out and b"\r\n1 kept-key" in out, out
    path = os.environ["XDG_STATE_HOME"] + "/kvrail/kv-client.history"
    with open(path, "rb") as f:
        text = f.read()
    assert b"exists kept-key\n" in text and b"secret" not in text, text
    assert os.stat(path).st_mode & 0o777 == 0o600


def options():
    """Commands take the options at the prompt that they take on the command line."""
    _, out = session(argv, [b"stat --all --shards", b"stat --json", b"cluster --json", b"top --once --interval 100ms",
                            b"put ttled v --ttl 100s", b"ttl ttled", b"drain nobody --drain-sec 5s --drain-mb 1"])
    text = out.decode()
    assert "[this client]" in text and "shard 0]" in text and '"servers"' in text and '"epoch"' in text, text
    assert "\nSERVER " in text and "no server has the name or address nobody" in text and "usage:" not in text, text
    left = [line for line in text.split("\r\n") if line.endswith(" s") and line[0].isdigit()]
    assert left and 50 < float(left[0].split()[0]) <= 100, text


def clear_asks():
    """clear, which wipes the screen in other programs, forgets values at the prompt only when yes is typed."""
    piped([b"put kept 1"])
    for answer, left in ((b"no", b"1 kept"), (b"", b"1 kept"), (b"yes please", b"1 kept"), (b"yes", b"0 kept")):
        t = Terminal(argv)
        t.until(b"kv> ")
        t.send(b"clear\n")
        t.until(b"Type yes: ")
        t.send(answer + b"\n")
        t.until(b"\r\nkv> ", 1)
        t.send(b"exists kept\n")
        t.until(b"\r\nkv> ", 2)
        t.send(b"exit\n")
        assert t.end() == 0 and left in t.out and (b"nothing was cleared" in t.out) == (left[:1] == b"1"), t.out
    piped([b"put kept 1", b"clear"])
    assert piped([b"exists kept"]).startswith(b"0 ")


def escapes():
    """A value, a key or a message cannot drive the terminal; files and pipes get the bytes."""
    evil = b"a\x1b]0;title\x07\x1b[2J\xc2\x9b31m\r\x7f\xff-grin \xf0\x9f\x98\x80\ttab\nline"
    assert kv("put", "evil", "-", input=evil).returncode == 0
    assert kv("put", b"k\x1b[31m", "1").returncode == 0
    assert kv("get", "evil").stdout == evil
    for args in (["get", "evil"], ["exists", b"k\x1b[31m"], ["touch", b"k\x1b[31m"], ["get", b"no\x1b[31m"]):
        t = Terminal([*argv, *args])
        t.end()
        assert not any(b in t.out for b in (b"\x1b", b"\x07", b"\x9b31m\r", b"\x7f", b"\xff")), (args, t.out)
    t = Terminal([*argv, "get", "evil"])
    assert t.end() == 0
    want = b"a\\x1b]0;title\\x07\\x1b[2J\\xc2\\x9b31m\\x0d\\x7f\\xff-grin \xf0\x9f\x98\x80\ttab\r\nline\r\n"
    assert t.out == want, t.out
    assert kv("exists", b"k\x1b[31m").stdout == b"1 k\x1b[31m\n"


def top_quits():
    """q ends top, and the terminal echoes again. At the prompt, the prompt comes back. Other keys do nothing."""
    t = Terminal([*argv, "top", "--interval", "10s"])
    end = time.monotonic() + 50
    while termios.tcgetattr(t.fd)[3] & termios.ECHO:  # until it reads single keys
        assert time.monotonic() < end, t.out
        t.read(0.1)
    t.send(b"xq")
    assert t.end() == 0, t.out
    assert b"x" not in t.out.split(b"SERVER")[0], t.out
    t = Terminal([*argv, "top", "--interval", "100ms"], rows=10)
    t.until(b"SERVER", 2)
    t.send(b"Q")
    assert t.end() == 0
    t = Terminal(argv)
    t.until(b"kv> ")
    t.send(b"top --interval 100ms\n")
    t.until(b"SERVER", 2)
    t.send(b"q")
    t.until(b"kv> ", 2)
    t.send(b"exists top-was-quit\n")
    t.until(b"\n0 top-was-quit")
    t.send(b"exit\n")
    assert t.end() == 0


def term_at_top():
    """SIGTERM ends top at the prompt, and with it the program; the terminal is as before."""
    master, slave = os.openpty()
    before = termios.tcgetattr(slave)

    def front():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    p = subprocess.Popen(argv, stdin=slave, stdout=subprocess.PIPE, stderr=slave, preexec_fn=front)
    os.write(master, b"top --interval 100ms\n")
    for line in p.stdout:
        if b"SERVER" in line:
            break
    assert not termios.tcgetattr(slave)[3] & termios.ICANON
    p.send_signal(signal.SIGTERM)
    p.stdout.close()
    assert p.wait(30) == -signal.SIGTERM
    assert termios.tcgetattr(slave)[3] == before[3]


def fits(words, rows, columns, env=None):
    """The lines of a command on a terminal of so many columns."""
    t = Terminal([*argv, *words], {"TERM": "xterm", **(env or {})}, rows, columns)
    if "--once" in words or "cluster" in words:
        status = t.end()
        lines = t.out.decode().split("\r\n")
    else:
        t.until(b"\033[H\033[J", 3)
        t.send(b"\003")
        status = t.end()
        lines = t.out.decode().split("\033[H\033[J")[2].split("\r\n")
    wide = [line for line in lines if len(line) > columns]
    assert not wide, (columns, wide, lines)
    return status, lines


def tables():
    """top and cluster keep to the columns, whatever stands in a row, and drop columns before they cut names."""
    name = "a-rather-long-name-of-a-server-in-a-big-cluster=127.0.0.1:9"
    more = ["--server", name, "--server", "127.0.0.1:10"]
    for columns in (300, 120, 100, 80, 72, 60, 40, 20, 9, 1):
        _, lines = fits([*more, "top", "--once", "--interval", "100ms"], 24, columns)
        if columns >= 60:
            assert lines[1].startswith("SERVER ") and "GET/s" in lines[1] and "HIT%" in lines[1] and "MEM%" in lines[1], lines
            assert [line for line in lines if line.startswith("127.0.0.1:10 ") and "not" in line], lines
        status, lines = fits([*more, "cluster"], 24, columns)
        assert status == 1, lines
        text = " ".join(" ".join(lines).split())
        if columns >= 60:
            assert [line for line in lines if line.startswith("MEMBER ") and "STATE" in line and "HIT%" in line], lines
        if columns >= 30:
            assert text.count("does not answer: ") == 2 and "127.0.0.1:10" in text, lines
    # Without a terminal nothing is left out, unless COLUMNS says how wide a line may be.
    out = kv("top", "--once", "--interval", "100ms").stdout.decode()
    assert "BLOCKS" in out and "CLIENTS" in out, out
    out = kv("top", "--once", "--interval", "100ms", env={**os.environ, "COLUMNS": "60"}).stdout.decode()
    assert "BLOCKS" not in out and max(map(len, out.split("\n"))) <= 60, out


def lines_kept():
    """On a terminal of 6 lines there is room for two of three servers, of 5 for one, and no row takes two lines."""
    for rows, columns, more in ((6, 120, 1), (5, 60, 2), (7, 80, 0)):
        status, screen = fits(["--server", "127.0.0.1:9", "--server", "127.0.0.1:10", "--interval", "200ms", "top"], rows, columns)
        assert status == 0 and screen[1].startswith("SERVER ") and (f"({more} more)" in screen) == (more > 0), screen
        assert len(screen) <= rows, screen


globals()[case]()
