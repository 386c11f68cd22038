/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.h -- pairs of ends: ours, and a responder's, a child or a process at --connect.
 *
 * Thread: main. Responders start before the first libfabric call of this process (no fork after one), and wait. */
#ifndef KVRAIL_KVBENCH_FABRIC_PAIRS_H
#define KVRAIL_KVBENCH_FABRIC_PAIRS_H

#include "kvbench/fabric/end.h"

struct fabric_pairs {
	struct end *end[FABRIC_PAIRS_MAX];
	int fd[FABRIC_PAIRS_MAX];
	pid_t pid[FABRIC_PAIRS_MAX]; /* 0: no child */
	unsigned num_started, num_open;
};

/* fabric_pairs_start -- options->pairs responders: children, or connections to options->connect. */
int fabric_pairs_start(struct fabric_pairs *pairs, const struct fabric_options *options, struct kv_error *err);

/* fabric_pairs_open -- the engines of both sides, with options->size_max, span, provider and nic. All responders but
 * the first rest. */
int fabric_pairs_open(struct fabric_pairs *pairs, const struct fabric_options *options, struct kv_error *err);

/* fabric_pairs_close -- also after errors, and of a zeroed struct. Children end by themselves, or are killed. */
void fabric_pairs_close(struct fabric_pairs *pairs);

/* fabric_pairs_cpu_seconds -- CPU time of the children so far. */
double fabric_pairs_cpu_seconds(const struct fabric_pairs *pairs);

#endif
