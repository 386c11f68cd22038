/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h -- sub-commands that work on results of earlier runs; they touch no fabric. argv[0] is the program's. Each
 * returns the exit status. */
#ifndef KVRAIL_KVBENCH_REPORT_COMMANDS_H
#define KVRAIL_KVBENCH_REPORT_COMMANDS_H

/* plot_main -- kv-bench plot RESULT.json --output FILE: 0, 2 usage or a result that cannot be read, 1 not written. */
int plot_main(int argc, char **argv);

/* compare_main -- kv-bench compare A.json B.json...: 0, 1 a regression, 2 usage or results that do not compare. */
int compare_main(int argc, char **argv);

#endif
