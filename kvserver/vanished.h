/* SPDX-License-Identifier: Apache-2.0 */
/* vanished.h -- a last word about memory whose file was shortened. */
#ifndef KVRAIL_KVSERVER_VANISHED_H
#define KVRAIL_KVSERVER_VANISHED_H

/* vanished_watch -- from now on a SIGBUS is explained on standard error before it ends the process. Thread: the main
 * thread, before others begin. */
void vanished_watch(void);

#endif
