# SPDX-License-Identifier: Apache-2.0
"""tap.py -- runs the functions test_*(server) of a module, in their order, and speaks TAP. What a test that failed raised
stands first, in a line; then the trace."""

import traceback

import kvrail


def gist(error):
    """A line that tells what was raised; of an assertion without words, the assertion."""
    said = str(error).partition("\n")[0] or traceback.extract_tb(error.__traceback__)[-1].line
    return f"{type(error).__name__}: {said}"


def run(engine, module):
    """module: its globals. How many failed."""
    tests = [(n, f) for n, f in module.items() if n.startswith("test_")]
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    with kvrail.Server(memory_mb=256) as server:
        for i, (name, test) in enumerate(tests, 1):
            title = f"{i} - {engine}: {name[5:].replace('_', ' ')}"
            try:
                test(server)
            except BaseException as error:
                failed += 1
                lines = [gist(error), *traceback.format_exc().splitlines()]
                print(f"not ok {title}", *(f"# {line}" for line in lines), sep="\n", flush=True)
            else:
                print(f"ok {title}", flush=True)
    return failed
