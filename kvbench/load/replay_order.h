/* SPDX-License-Identifier: Apache-2.0 */
/* replay_order.h -- hands the requests of a trace to workers: in file order, at their time, and (strict) when earlier
 * requests are out of the way. It runs on a loop and a thread of its own; workers talk to it by posting. */
#ifndef KVRAIL_KVBENCH_LOAD_REPLAY_ORDER_H
#define KVRAIL_KVBENCH_LOAD_REPLAY_ORDER_H

#include <stdbool.h>

#include "kvbench/load/trace.h"
#include "loop/loop.h"

struct sequencer;
struct seq_worker;

/* A request's claim on one block, in the order of the file. */
struct seq_claim {
	uint64_t id;
	struct seq_worker *owner;
	struct seq_claim *behind;
	struct seq_claim *hash_next; /* of the last claim of its block: in the table */
	bool held;
};

/* One worker, as the sequencer sees it. The worker's memory, zeroed at first; fini frees its members. */
struct seq_worker {
	const uint64_t *ids;
	unsigned num_ids;
	uint64_t line, at_ns; /* at_ns: of the trace, since its first request */
	uint64_t due_ns;      /* the sequencer's, with a speed */
	/* the sequencer's */
	struct sequencer *seq;
	struct loop *loop;
	struct co *co;
	uint64_t *ids_copy;
	struct seq_claim *claim;
	unsigned cap, waits, found;
	bool given, ended; /* the worker's loop only */
	bool verdict;      /* the sequencer's: the next value of `ended` */
	struct kv_list node;
};

struct seq_options {
	const char *path;
	bool strict;
	double speed;
	uint64_t duration_ns; /* no request starts later; 0: no limit */
	const struct kv_log *log;
	void (*before)(void *arg, uint64_t at_ns); /* a request of this time of the trace starts next; NULL:
						      nobody wants to know. The sequencer's thread. */
	bool (*over)(void *arg); /* asked before each request, and often while waiting: true ends the replay. The
				    sequencer's thread. */
	void *arg;
};

struct seq_stats {
	uint64_t started;     /* requests */
	uint64_t waited;      /* of those: had to wait for an earlier one */
	uint64_t late_max_ns; /* with a speed: of a start behind its time, also where it waited for other requests; of a
				 request that never started, its age at the end */
	uint64_t never_started; /* with a speed and a duration: due requests that no worker has taken */
	bool end_of_file;       /* all requests of the file have started */
};

int sequencer_start(const struct seq_options *options, struct sequencer **out, struct kv_error *err);

/* sequencer_stop -- after every worker got false from seq_next_await, and before the workers' loops are destroyed (it
 * may still be ringing one). Returns 0, or the code that ended reading the trace, with *err. NULL is accepted. */
int sequencer_stop(struct sequencer **seq, struct seq_stats *out, struct kv_error *err);

/* seq_worker_init -- from the worker's coroutine, before its first request. seq_worker_fini -- after its last. */
void seq_worker_init(struct seq_worker *worker, struct sequencer *seq);
void seq_worker_fini(struct seq_worker *worker);

bool seq_next_await(struct seq_worker *worker);

/* seq_looked_up_await -- the first `found` blocks of the request were found: later requests need not wait for those.
 * Once per request at most. */
void seq_looked_up_await(struct seq_worker *worker, unsigned found);

#endif
