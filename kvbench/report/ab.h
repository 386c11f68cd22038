/* SPDX-License-Identifier: Apache-2.0 */
/* ab.h -- kv-bench compare --ab: two programs, measured in turns. */
#ifndef KVRAIL_KVBENCH_REPORT_AB_H
#define KVRAIL_KVBENCH_REPORT_AB_H

#include <stdint.h>

/* ab_compare -- run kv-bench A and B, each a process of its own, in so many pairs, and judge. program: two paths of a
 * kv-bench, or of folders that have one. option: further options of both. Returns the exit status: 0 no difference, 1 B
 * is worse, 2 no verdict, or a run failed; 128 + a signal. */
int ab_compare(const char *const program[2], const char *const *option, unsigned num_options, unsigned pairs,
	       double threshold);

#endif
