/* SPDX-License-Identifier: Apache-2.0 */
/* get.h -- struct kvc_get: a GET in progress, as single calls, batches and borrowing make it. Private to kvclient/. All
 * functions run on the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_TRANSFER_GET_H
#define KVRAIL_KVCLIENT_TRANSFER_GET_H

#include "kvclient/core/target.h"
#include "kvclient/transfer/call.h"

/* How far an attempt is; get.c draws it. */
enum kvc_get_state {
	KVC_GET_ASKING,  /* nothing is known of the value: its first range is to be asked for, or out */
	KVC_GET_READING, /* the first reply told what the value is: the ranges that are left are asked for */
	KVC_GET_WHOLE    /* all bytes are at their place, and right */
};

/* Where a range lands. */
enum kvc_get_place {
	KVC_GET_COPIED, /* in a piece of the receive buffer, from which it is copied to `to.at` */
	KVC_GET_DIRECT, /* at `to.at` itself, which lies in `to.region` */
	KVC_GET_LENT    /* in a piece that the borrower gets: one range, and `to.cap` is the length that is expected */
};

struct kvc_get {
	struct kvc_client *c;
	struct route route;       /* the key, and the server that is asked for it; it changes between attempts */
	enum kvc_get_state state; /* changed in get.c alone */

	/* What the caller asked. Set once. */
	struct {
		struct kvc_session *session; /* whose call it is; NULL: the client's own session's */
		bool background;             /* KVC_BACKGROUND */
		/* One request must bring it: the server moves all of it or nothing. A batch makes any other item again
		 * as a single call, which would move the first bytes twice. */
		bool single;
		bool more;               /* a further part of a value whose first part is asked for by another GET */
		uint64_t exact;          /* bytes that it must have, else it is a miss; 0: any number */
		uint64_t offset, length; /* of a part of the value; length 0: to the end; both 0: the whole value */
		bool verify;             /* a flag of the caller's and of the pool's */
	} ask;

	/* Where the bytes go. */
	struct {
		struct kvc_target at; /* slice 0: contiguous */
		uint64_t cap;         /* bytes of value that it takes */
		enum kvc_get_place place;
		uint32_t region;
		uint64_t region_offset; /* of `at` */
		struct kvc_client_mem
			*mem; /* the caller's registration, if that is where it is; its `users` is raised */
	} to;

	/* What the first reply told. Not while KVC_GET_ASKING, but that generation is 0 then. */
	struct {
		uint64_t len, generation, checksum;
		uint64_t total; /* bytes of the part that was asked for */
	} value;

	/* How many bytes of the part this attempt has asked for, and brought to their place. */
	uint64_t issued, taken;

	uint8_t stale; /* attempts that ended so; see PULLS_STALE */

	/* Of a batch, for its small items. */
	struct {
		uint64_t *row; /* per shard of the server, where the next one goes; NULL: no batch */
		uint32_t turn; /* they take the same link of a shard, else no two are in one frame */
	} batch;

	struct kvc_wait own_wait, *wait;
};

/* kvc_get_init -- fill *g. to: a target as kvc_target_make makes it, or one place; it takes len bytes of value. 0 or
 * -KV_EINVAL. kvc_get_fini -- let go of the registration that it uses. */
int kvc_get_init(struct kvc_get *g, struct kvc_client *c, struct kvc_key key, const struct kvc_target *to, uint64_t len,
		 const struct kvc_call *call, uint64_t deadline_ns);
void kvc_get_fini(struct kvc_get *g);
/* kvc_get_begin -- begin an attempt: nothing is known of the value, and nothing was asked for. */
void kvc_get_begin(struct kvc_get *g);
/* kvc_get_issue_await -- ask for the next range. wait false: -KV_EBUSY instead of parking. 0 and *out, which the caller
 * releases; or a code. */
int kvc_get_issue_await(struct kvc_get *g, bool wait, struct kvc_req **out);
/* kvc_get_take_await -- take the bytes of a range that is done with `status`. Returns 0 or a code; the state tells
 * whether that was all. hasher: for values of several ranges; NULL when this must be the only range. */
int kvc_get_take_await(struct kvc_get *g, struct kvc_req *r, int status, struct kv_hasher *hasher);
/* kvc_get_once_await -- make one attempt, with all ranges. kvc_get_all_await -- make the whole GET, with retries, and
 * count where it was asked. Both return the length or a code. */
int64_t kvc_get_once_await(struct kvc_get *g);
int64_t kvc_get_all_await(struct kvc_get *g);

/* kvc_get_lent_await -- make the whole GET into a piece of the receive buffer, which is the caller's then. len: how
 * long the value may be, a guess. 0 or a code. */
int kvc_get_lent_await(struct kvc_get *g, uint64_t len, struct kvc_borrowed *out);

/* kvc_get_count -- count a GET that ended with rc. */
void kvc_get_count(struct kvc_client *c, int64_t rc);

#endif
