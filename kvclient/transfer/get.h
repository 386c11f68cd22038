/* SPDX-License-Identifier: Apache-2.0 */
/* get.h -- struct kvc_get: a GET in progress, for single calls, batches and borrowing. Private to kvclient/. On the
 * client's loop; only *_await parks. */
#ifndef KVRAIL_KVCLIENT_TRANSFER_GET_H
#define KVRAIL_KVCLIENT_TRANSFER_GET_H

#include "kvclient/core/target.h"
#include "kvclient/seal/sealed.h"
#include "kvclient/transfer/call.h"

/* The progress of an attempt; see get.c. */
enum kc_get_state {
	KC_GET_ASKING,  /* the value is unknown: its first range is to be asked for, or out */
	KC_GET_READING, /* the first reply described the value: asking for the other ranges */
	KC_GET_WHOLE
};

/* A range's landing place. */
enum kc_get_place {
	KC_GET_COPIED, /* a piece of the receive buffer, copied to `to.at` */
	KC_GET_DIRECT,
	KC_GET_LENT,  /* a borrower's piece: one range; `to.cap` is the expected length */
	KC_GET_LEASED /* nowhere: a borrower reads it in the server's memory; one range */
};

struct kvc_get {
	struct kvc_client *c;
	struct route route;
	enum kc_get_state state; /* changed by get.c only */

	struct {
		struct kvc_session *session;
		bool background;  /* KVC_BACKGROUND */
		bool memory_only; /* KVC_MEMORY_ONLY */
		/* One request must bring it: the server moves all or nothing. */
		bool single;
		bool more;      /* a later part of a value read by several GETs */
		bool moved;     /* never lease it */
		uint64_t exact; /* required length, else a miss; 0: any */
		uint64_t guess; /* the length that a borrower expects; 0: unknown */
		uint64_t offset, length;
		bool verify;
	} ask;

	bool on_tier; /* a server has the value there, and did not read it */

	/* The bytes' destination. */
	struct {
		struct kc_target at; /* slice 0: contiguous */
		uint64_t cap;        /* capacity in bytes of value */
		enum kc_get_place place;
		uint32_t region;
		uint64_t region_offset;    /* of `at` */
		struct kc_client_mem *mem; /* the caller's registration or NULL; its `users` is raised */
	} to;

	/* From the first reply. Invalid while KC_GET_ASKING, except generation 0. */
	struct {
		uint64_t len, generation, checksum;
		uint64_t total;
	} value;

	/* Bytes of the part that this attempt asked for, and brought to their place. */
	uint64_t issued, taken;

	uint8_t stale; /* attempts that ended with -KV_ESTALE; see PULLS_STALE */

	bool refused;

	struct {
		uint64_t *row; /* next place per shard of the server; NULL: no batch */
		uint32_t turn; /* shared, so that requests share a link and a frame */
	} batch;

	struct kc_wait own_wait, *wait;

	/* Of a sealed value (kc_get_seal). Then the lengths and offsets above are those of its stored bytes. */
	struct {
		struct kc_sealer *by;                       /* NULL: it is not sealed, and the rest is undefined */
		uint64_t offset, length, cap, exact, total; /* as in ask, to and value, of the value's bytes */
		struct kc_seal_value value;
		uint64_t chain; /* kc_get_chain of the pieces before; 0: unknown */
	} sealed;
};

/* kc_get_init -- fill *g. to: from kc_target_make, or one place; it takes len bytes of value. 0 or -KV_EINVAL.
 * kc_get_fini -- release its registration. */
int kc_get_init(struct kvc_get *g, struct kvc_client *c, struct kvc_key key, const struct kc_target *to, uint64_t len,
		const struct kvc_call *call, uint64_t deadline_ns);
void kc_get_fini(struct kvc_get *g);
void kc_get_unseal(struct kvc_get *g); /* for kc_get_seal */
/* kc_get_seal -- read a sealed value, if the client seals values. Once, before the first attempt; not with KC_GET_LENT
 * and KC_GET_LEASED. kc_get_total, kc_get_len -- the bytes of the part that was read, and of the value. */
static inline void kc_get_seal(struct kvc_get *g)
{
	if (KV_UNLIKELY(g->c->sealer != NULL))
		kc_get_unseal(g);
}
/* kc_get_chain -- names the value's pieces up to the last one read: the first bytes of its tag. */
static inline uint64_t kc_get_chain(const struct kvc_get *g)
{
	return kv_get64(g->sealed.value.prev);
}
static inline uint64_t kc_get_total(const struct kvc_get *g)
{
	return KV_UNLIKELY(g->sealed.by != NULL) ? g->sealed.total : g->value.total;
}
static inline uint64_t kc_get_len(const struct kvc_get *g)
{
	return KV_UNLIKELY(g->sealed.by != NULL) ? g->sealed.value.len : g->value.len;
}
/* kc_get_begin -- begin an attempt. */
void kc_get_begin(struct kvc_get *g);
/* kc_get_issue_await -- ask for the next range. wait false: -KV_EBUSY instead of parking. 0 and *out, which the caller
 * releases; or a code. */
int kc_get_issue_await(struct kvc_get *g, bool wait, struct kc_req **out);
/* kc_get_take_await -- take the bytes of a range that ended with `status`. 0 or a code; see the state for completion.
 * hasher: for values of several ranges; NULL if this must be the only range. */
int kc_get_take_await(struct kvc_get *g, struct kc_req *r, int status, struct kv_hasher *hasher);
/* kc_get_code -- the caller's code for this result: -KV_ETIER for a miss in memory alone. */
int64_t kc_get_code(const struct kvc_get *g, int64_t rc);

/* kc_get_once_await -- make one attempt, with all ranges. kc_get_all_await -- make the whole GET, with retries, and
 * count the server asked. Both return the length or a code. */
int64_t kc_get_once_await(struct kvc_get *g);
int64_t kc_get_all_await(struct kvc_get *g);

/* kc_get_lent_await -- make the whole GET into a piece of the receive buffer, then owned by the caller. len: a guess
 * of the value's length. 0 or a code. */
int kc_get_lent_await(struct kvc_get *g, uint64_t len, struct kvc_borrowed *out);

/* kc_get_lend -- after a GET with KC_GET_LEASED: the borrower takes the request's lease. -KV_ENOTSUP: there is none. */
int kc_get_lend(const struct kvc_get *g, struct kc_req *r, struct kvc_borrowed *out);
/* kc_get_guess -- the length to expect of a value to borrow; expected: the caller's word, or 0. */
uint64_t kc_get_guess(const struct kvc_client *c, uint64_t expected);

/* kc_borrowed_client -- the client that lent room; NULL: none. */
struct kvc_client *kc_borrowed_client(const struct kvc_borrowed *b);

void kc_get_count(struct kvc_client *c, int64_t rc);

#endif
