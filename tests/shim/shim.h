/* SPDX-License-Identifier: Apache-2.0 */
/* shim.h -- an imitation of fabric hardware that is not here: what a test may ask of it. See README.md.
 *
 * Linked into a test, or preloaded into a program, it answers fi_getinfo for the providers of one imitated machine and
 * leaves all others to libfabric. It sleeps until KVRAIL_SHIM names a machine, or shim_configure is called. */
#ifndef KVRAIL_TESTS_SHIM_SHIM_H
#define KVRAIL_TESTS_SHIM_SHIM_H

#include <stdbool.h>
#include <stdint.h>

/* shim_configure -- "machine,knob=value,...", as in KVRAIL_SHIM: what is opened from now on is so. NULL: as the
 * environment says. Returns 0, or -1 with a sentence on stderr. Not while anything of the shim is open. */
int shim_configure(const char *text);

/* shim_seed -- what KVRAIL_SEED or KVRAIL_SHIM said, else drawn at the start; printed then. */
uint64_t shim_seed(void);

struct shim_counts {
	uint64_t posts, eagain, handshakes; /* accepted; refused with -FI_EAGAIN; first contacts that a refusal began */
	uint64_t overtaken;       /* packets sent before an older one, and completions read before an older one */
	uint64_t immediates, rnr; /* delivered; held because no receive was posted */
	uint64_t emulated,
		emulated_bytes; /* packets that waited for the target's CPU, and the bytes in them that it copied */
	uint64_t sends, writes, reads; /* of the posts */
	uint64_t send_bytes, write_bytes, read_bytes;
	uint64_t slow_closes; /* endpoints that were closed while something was out: fi_close waited for it */
	uint64_t rnr_retry;   /* what was asked for last: FI_OPT_EFA_RNR_RETRY */
	uint64_t cq_peak;     /* most entries that any CQ held */
	uint64_t overruns, eq_errors, op_errors; /* CQs lost; EQ errors put in; operations that ended badly */
	uint64_t violations; /* misuse, each told on stderr; strict=1 (the default) aborts at the first */
};
void shim_counts(struct shim_counts *out);

/* shim_eq_error -- every enabled endpoint of this process that has an EQ gets an error there and works no more. */
void shim_eq_error(void);

/* shim_freeze -- the devices of this process stop moving bytes (true), or go on. */
void shim_freeze(bool frozen);

#endif
