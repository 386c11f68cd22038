/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h -- pieces of a client's receive buffer. Private to kvclient/. Nothing here parks. */
#ifndef KVRAIL_KVCLIENT_CORE_BUFFER_H
#define KVRAIL_KVCLIENT_CORE_BUFFER_H

#include "base/base.h"

enum { KC_PIECE_SHIFT = 12, KC_PIECE_MIN = 1 << KC_PIECE_SHIFT, KC_ORDERS = 36 };

struct kc_piece {
	uint64_t offset, len_bytes;
};

struct kc_buffer {
	uint8_t *base;
	uint64_t len_bytes; /* usable: a multiple of KC_PIECE_MIN */
	uint64_t free_bytes, quarantined_bytes, limbo_bytes;
	uint32_t units;
	uint8_t *state;        /* per unit: order of the block that begins here, kind in the top bits; or INSIDE */
	uint32_t *next, *prev; /* per unit that begins a block: its list */
	uint32_t head[KC_ORDERS];
	uint32_t quarantine, limbo; /* first blocks */
	uint32_t kept;              /* last block given back, not merged yet */
};

/* kc_buffer_init -- manage the caller's [base, base + len_bytes). 0, -KV_EINVAL (less than one piece) or -KV_ENOMEM.
 */
int kc_buffer_init(struct kc_buffer *b, void *base, uint64_t len_bytes);
void kc_buffer_fini(struct kc_buffer *b);

/* kc_buffer_take -- at least len_bytes (0 counts as 1). 0, -KV_EBUSY (no room now) or -KV_ETOOBIG (never). */
int kc_buffer_take(struct kc_buffer *b, uint64_t len_bytes, struct kc_piece *out);

/* kc_buffer_take_near -- if possible at *inout_next, which becomes the end of the piece, so that pieces of one size
 * lie together. UINT64_MAX begins a row, where run_bytes are free if possible. */
int kc_buffer_take_near(struct kc_buffer *b, uint64_t len_bytes, uint64_t run_bytes, uint64_t *inout_next,
			struct kc_piece *out);

/* kc_buffer_give -- take back a piece, if any, and zero *p. */
void kc_buffer_give(struct kc_buffer *b, struct kc_piece *p);

/* kc_buffer_quarantine -- a peer may still write to the piece: keep it out of use until kc_buffer_amnesty. Zeroes *p.
 */
void kc_buffer_quarantine(struct kc_buffer *b, struct kc_piece *p);
void kc_buffer_amnesty(struct kc_buffer *b);

/* kc_buffer_limbo -- the pieces now in quarantine wait for kc_buffer_limbo_end instead of an amnesty. */
void kc_buffer_limbo(struct kc_buffer *b);
void kc_buffer_limbo_end(struct kc_buffer *b);

uint64_t kc_buffer_rounded(uint64_t len_bytes);
/* kc_buffer_largest -- bytes of the largest possible piece. */
uint64_t kc_buffer_largest(const struct kc_buffer *b);

static inline void *kc_buffer_at(const struct kc_buffer *b, const struct kc_piece *p)
{
	return b->base + p->offset;
}

#endif
