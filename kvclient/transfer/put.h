/* SPDX-License-Identifier: Apache-2.0 */
/* put.h -- struct kvc_put: a PUT in progress, for single calls and batches. Private to kvclient/. On the client's loop;
 * only *_await parks. */
#ifndef KVRAIL_KVCLIENT_TRANSFER_PUT_H
#define KVRAIL_KVCLIENT_TRANSFER_PUT_H

#include "kvclient/seal/sealed.h"
#include "kvclient/transfer/call.h"

enum kc_put_by {
	KC_BY_READ,   /* the server reads them */
	KC_BY_LAND,   /* we write them to our landing area */
	KC_BY_PACK,   /* likewise, in one write with other values */
	KC_BY_INLINE, /* in the requests */
};

struct kvc_put {
	struct kvc_client *c;
	struct route route;
	struct kvc_session *session;
	struct kc_wait own_wait, *wait;
	bool batched;    /* an item of a batch, sent with others ... */
	uint32_t turn;   /* ... over the link of this turn */
	bool background; /* KVC_BACKGROUND */

	struct kc_target from;
	uint64_t len, checksum; /* of the stored bytes */
	bool summed;            /* checksum is valid */
	uint32_t ttl_s;
	uint64_t born_ns;          /* of a copy: a lower bound of the value's first PUT, by our clock; else 0 */
	bool spare;                /* of a copy: into free memory only */
	uint64_t incarnation;      /* of a copy to one server: its incarnation; 0: any */
	struct kc_client_mem *mem; /* the value's registration; NULL: none, or the client's own buffer */
	bool found;
	uint32_t region;
	uint64_t region_offset;

	/* The path, planned anew for each attachment. */
	uint64_t attaches; /* planned attachment (kc_node_uses) */
	enum kc_put_by by;
	uint64_t land_max; /* KC_BY_LAND: largest range in bytes */
	bool direct;       /* sent from its place, without a copy in a piece */
	bool filled;
	uint64_t land_offset;
	bool local; /* KC_BY_LAND: the area is mapped here, and the copy is the loop's */

	/* Of a sealed value (kc_put_seal): each range is sealed into the piece of its request. */
	struct {
		struct kc_sealer *by; /* NULL: it is not sealed, and the rest is undefined */
		struct kc_target from;
		uint64_t len; /* of the value */
		struct kc_seal_value value;
		uint8_t *cut;               /* where ranges are shorter than a piece: the piece, malloc'ed */
		uint64_t cut_from, cut_end; /* its bytes of later ranges */
		struct kv_hasher hasher;    /* of the stored bytes */
	} sealed;
};

/* kc_put_init -- fill *p. from: from kc_target_make, or one place; that memory and the key stay the caller's until
 * kc_put_fini. 0, -KV_EINVAL or -KV_ETOOBIG. kc_put_fini -- release its registration. */
int kc_put_init(struct kvc_put *p, struct kvc_client *c, struct kvc_key key, const struct kc_target *from, uint64_t len,
		const struct kvc_call *call, uint64_t deadline_ns);
void kc_put_fini(struct kvc_put *p);
/* kc_put_seal -- seal the value, if the client seals values. Once, before the first attempt. 0, or -KV_ETOOBIG: its
 * stored bytes are too many. */
int kc_put_hide(struct kvc_put *p); /* for kc_put_seal */
static inline int kc_put_seal(struct kvc_put *p)
{
	return KV_UNLIKELY(p->c->sealer != NULL) ? kc_put_hide(p) : 0;
}
/* kc_put_copy -- make it the client's own copy from its buffer to this server. If a fence would cut the client off
 * from all servers, the bytes go through pieces of its requests, for quarantine instead of fences. born_ns: see
 * struct kvc_put. incarnation: of the server; after a restart it knows no earlier DELETE, so the copy ends with
 * -KV_ECANCELED. */
void kc_put_copy(struct kvc_put *p, struct kc_node *to, uint64_t born_ns, uint64_t incarnation);
/* kc_put_single -- whether one request suffices. */
bool kc_put_single(struct kvc_put *p);
/* kc_put_issue_await -- send a range. stage: from the first reply, or 0. wait false: -KV_EBUSY instead of waiting for
 * room (hashing and copying may still yield). 0 and *out, which the caller releases; -KV_ERESET: the attachment and
 * stage are gone, begin again; or a code. */
int kc_put_issue_await(struct kvc_put *p, uint64_t offset, uint64_t length, uint64_t stage, bool wait,
		       struct kc_req **out);
/* kc_put_all_await -- make the whole PUT, with ranges and retries. 0 or a code; of a copy -KV_EDELETED: its key was
 * deleted since the value's birth, or the server has a younger value. */
int kc_put_all_await(struct kvc_put *p);

/* kc_put_cleared -- node n refused the request r of call t with -KV_EDELETED: its namespace was cleared. 0: the call
 * may have begun before, so its value is dropped, as if the clear had come right after it; -KV_ESTALE: it began after
 * the clear, and is to be made again. */
int kc_put_cleared(struct kc_node *n, const struct kc_trace *t, const struct kc_req *r);

void kc_put_count(struct kvc_client *c, int rc, uint64_t len);

#endif
