#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""headers.py -- prints the folder of Python.h of the Python that runs it; or says on stderr why there is none, and fails."""

import pathlib
import sys
import sysconfig

folder = sysconfig.get_path("include")
if sys.version_info < (3, 11):
    sys.exit("python3 is %d.%d, and the package needs 3.11" % sys.version_info[:2])
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit("this python3 has no GIL")
if not pathlib.Path(folder, "Python.h").is_file():
    sys.exit("there is no Python.h: on Debian and Ubuntu it is in python3-dev")
print(folder)
