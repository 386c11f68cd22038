/* SPDX-License-Identifier: Apache-2.0 */
/* put.h -- struct kvc_put: a PUT in progress, as single calls and batches make it. Private to kvclient/. All functions
 * run on the client's loop; one parks only if its name ends in _await. */
#ifndef KVRAIL_KVCLIENT_TRANSFER_PUT_H
#define KVRAIL_KVCLIENT_TRANSFER_PUT_H

#include "kvclient/transfer/call.h"

/* The ways of a value's bytes (the note in put.c says which is taken when). */
enum kvc_put_by {
	KVC_BY_READ,   /* the server reads them */
	KVC_BY_LAND,   /* we write them to our landing area there */
	KVC_BY_PACK,   /* likewise, copied into a write with other values */
	KVC_BY_INLINE, /* they are in the requests */
};

struct kvc_put {
	struct kvc_client *c;
	struct route route;          /* the key, and the server that is asked */
	struct kvc_session *session; /* whose call it is; NULL: the client's own session's */
	struct kvc_wait own_wait, *wait;
	bool batched;    /* an item of a batch: others are sent with it, ... */
	uint32_t turn;   /* ... over the link of this turn */
	bool background; /* KVC_BACKGROUND */

	/* The value, and where it lies. */
	struct kvc_target from;
	uint64_t len, checksum;
	bool summed; /* the checksum is there */
	uint32_t ttl_s;
	uint64_t born_ns;           /* of a copy: when its value was put first, or earlier, by our clock; else 0 */
	bool spare;                 /* of a copy: only into memory that is free */
	uint64_t incarnation;       /* of a copy to one server: that server's; 0: any */
	struct kvc_client_mem *mem; /* the registration that it lies in; NULL: none, or the client's own buffer */
	bool found;                 /* it lies in registered memory: at region_offset of `region` */
	uint32_t region;
	uint64_t region_offset;

	/* How its bytes get there, by what the server offers: planned for each attachment anew. */
	uint64_t attaches; /* the attachment that it is planned for (kvc_node_uses) */
	enum kvc_put_by by;
	uint64_t land_max; /* KVC_BY_LAND: bytes of a range at most */
	bool direct;       /* they go from where they lie, not from a copy in a piece of the buffer */
};

/* kvc_put_init -- fill *p. from: a target as kvc_target_make makes it, or one place; that memory and the key stay the
 * caller's until kvc_put_fini. 0, -KV_EINVAL or -KV_ETOOBIG. kvc_put_fini -- let go of the registration that it uses.
 */
int kvc_put_init(struct kvc_put *p, struct kvc_client *c, struct kvc_key key, const struct kvc_target *from,
		 uint64_t len, const struct kvc_call *call, uint64_t deadline_ns);
void kvc_put_fini(struct kvc_put *p);
/* kvc_put_copy -- it is a copy that the client makes by itself, out of its buffer, to this server alone. Where a fence
 * would cut the client off from all servers, its requests have pieces of their own: what a server that stands still may
 * yet read is kept apart (quarantine) and not fenced, which costs copying the bytes once more. born_ns: see struct
 * kvc_put. incarnation: of the server; if it was restarted since, it knows of no DELETE before, and the copy ends with
 * -KV_ECANCELED. */
void kvc_put_copy(struct kvc_put *p, struct kvc_node *to, uint64_t born_ns, uint64_t incarnation);
/* kvc_put_single -- whether one request is enough. */
bool kvc_put_single(struct kvc_put *p);
/* kvc_put_issue_await -- send a range of it. stage: the one that the first reply named, or 0. wait false: -KV_EBUSY
 * instead of waiting for room (the checksum and the copy of a large value may let others run). 0 and *out, which the
 * caller releases; -KV_ERESET: the attachment that it was planned for has gone, and a stage with it: make it anew from
 * the first range; or a code. */
int kvc_put_issue_await(struct kvc_put *p, uint64_t offset, uint64_t length, uint64_t stage, bool wait,
			struct kvc_req **out);
/* kvc_put_all_await -- make the whole PUT, with ranges and retries. 0 or a code; of a copy -KV_EDELETED: its key was
 * deleted since the value was born, or the server has a younger value. */
int kvc_put_all_await(struct kvc_put *p);

/* kvc_put_count -- count a PUT that ended with rc. */
void kvc_put_count(struct kvc_client *c, int rc, uint64_t len);

#endif
