/* SPDX-License-Identifier: Apache-2.0 */
/* get.h -- a GET, as calls and batches make it. Private to kvclient/. All of these on the client's loop; what does not
 * end in _await does not park. */
#ifndef KVRAIL_KVCLIENT_CALL_GET_H
#define KVRAIL_KVCLIENT_CALL_GET_H

#include "kvclient/call/call.h"
#include "kvclient/core/target.h"

struct kvc_get {
	struct kvc_client *c;
	struct kvc_node *n;
	struct kvc_key key;
	struct kvc_target dst;     /* slice 0: contiguous */
	uint64_t cap;              /* bytes of value that it takes */
	bool direct, verify, part; /* direct: the server writes to dst, which lies in `region` */
	bool check;                /* what came was corrupt: the server shall look at what it has */
	uint8_t stale;             /* tries that ended so; see PULLS_STALE */
	struct kvc_sub *sub;       /* whose call it is; NULL: the client's own session's */
	bool sized; /* cap is what the value is expected to be, not what the destination happens to have */
	uint32_t region;
	uint64_t region_offset;     /* of dst.at */
	struct kvc_client_mem *mem; /* of a direct destination that is the caller's registration */
	uint64_t offset, length;    /* of the part; length 0: to the end */
	uint64_t deadline_ns;
	/* what the first reply told */
	bool known;
	uint64_t value_len, generation, checksum, total;
	uint64_t issued, taken;
	uint64_t *row; /* per shard of the server, where the next small item of a batch goes; NULL: no batch */
	uint32_t turn; /* of the batch: its small items take the same link of a shard, else no two are in one frame */
	struct kvc_wait own_wait, *wait;
};

/* kvc_get_init -- fill *g. 0 or -KV_EINVAL. slice 0: contiguous. kvc_get_fini -- let go of the registration that it
 * uses. */
int kvc_get_init(struct kvc_get *g, struct kvc_client *c, struct kvc_key key, void *dst, uint64_t len, uint64_t slice,
		 uint64_t stride, const struct kvc_call *call, uint64_t deadline_ns);
void kvc_get_fini(struct kvc_get *g);
/* kvc_get_issue_await -- ask for the next range. wait false: -KV_EBUSY instead of parking. 0 and *out, which is the
 * caller's to release; or a code. */
int kvc_get_issue_await(struct kvc_get *g, bool wait, struct kvc_req **out);
/* kvc_get_take_await -- take the bytes of a range that is done with `status`. Returns 0 or a code; g->taken == g->total
 * && g->known: complete. hasher: for values of several ranges, NULL when this must be the only one. */
int kvc_get_take_await(struct kvc_get *g, struct kvc_req *r, int status, struct kv_hasher *hasher);
/* kvc_get_all_await -- the whole GET with ranges and retries. Returns the length or a code. */
int64_t kvc_get_all_await(struct kvc_get *g);

/* kvc_get_count -- one more GET that ended so. */
void kvc_get_count(struct kvc_client *c, int64_t rc);

#endif
