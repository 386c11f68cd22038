/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h -- SIGINT and SIGTERM end a run in order: workers stop, the server child is reaped. A second one ends the
 * process at once. */
#ifndef KVRAIL_KVBENCH_SETUP_SIGNALS_H
#define KVRAIL_KVBENCH_SETUP_SIGNALS_H

/* bench_signals_install -- once, from main. */
void bench_signals_install(void);

/* bench_interrupted -- the signal that came, or 0. Any thread. */
int bench_interrupted(void);

#endif
