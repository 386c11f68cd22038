/* SPDX-License-Identifier: Apache-2.0 */
/* congestion.h -- the congestion control of connections to a server on this machine, at both of their ends. */
#ifndef KVRAIL_KVBENCH_VERSUS_CONGESTION_H
#define KVRAIL_KVBENCH_VERSUS_CONGESTION_H

#include "base/base.h"

enum { CONGESTION_NAME = 32 };

/* congestion_align -- give n connected TCP sockets, and the server's ends of them, this congestion control. pid: the
 * server's process; 0: it is not known. name "": change nothing. out: the one that the server's ends have then; ""
 * where this process may not look at them (another machine, another user, no ptrace), or where they differ. */
void congestion_align(int pid, const int *fd, unsigned n, const char *name, char out[CONGESTION_NAME]);

#endif
