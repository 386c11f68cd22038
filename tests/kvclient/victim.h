/* SPDX-License-Identifier: Apache-2.0 */
/* victim.h -- a client of the liar (liar.h), and what every lie leaves true: a GET ends soon after its deadline with
 * the right bytes or an error, and a server that becomes honest is used again. */
#ifndef KVRAIL_TESTS_KVCLIENT_VICTIM_H
#define KVRAIL_TESTS_KVCLIENT_VICTIM_H

#include "kvclient/kvclient.h"
#include "liar.h"

#define VICTIM_LATE_NS 5000000000ull /* a call that takes so much longer than it may hangs */

enum { VICTIM_CAP = 256 << 10 };

/* The code that a lie ends with: 0 means success; this one success or any error, as the order of arrival has it. */
enum { VICTIM_ANY = 1 };

struct victim {
	const char *address; /* the liar's; NULL: it was not started */
	struct kvc_pool *pool;
	struct kvc_mem *mem;
	uint8_t *dst[2];     /* plain, registered */
	uint64_t timeout_ns; /* of its calls; set with the next three before victim_start */
	uint64_t connect_timeout_ns;
	void (*log)(void *arg, int level, const char *line); /* of level warn; NULL: there is no log */
	uint64_t wait_ns; /* that an honest server may take, on a machine that may be busy */
};

extern struct victim victim;

struct kvc_options victim_options(void);

/* victim_start -- the liar, and a pool. victim_stop -- both, as far as they were started. */
void victim_start(enum kvc_mode mode);
void victim_stop(void);

struct kvc_counters victim_counters(struct kvc_pool *of);

/* victim_get -- one GET: right bytes or an error, in time. */
int64_t victim_get(struct kvc_pool *from, uint8_t *to);

/* victim_get_patiently -- one of an honest server, on a machine that may be busy. */
void victim_get_patiently(struct kvc_pool *from, uint8_t *to);

/* victim_get_answered -- again if there was no answer in time, on a machine that may be busy; not where that is the
 * lie, or all is one. */
int64_t victim_get_answered(struct kvc_pool *from, uint8_t *to, int expected);

/* victim_recovers -- the server is honest from now on: soon calls succeed. */
void victim_recovers(void);

/* victim_tell -- print what a lie came to, and hold it to `expected`. */
void victim_tell(const char *lie, unsigned dst, int64_t rc, int expected);

#endif
