/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_wire.h -- libfabric's wire protocol as bytes, written down a second time: what tests send to a fabric port in
 * a peer's or a stranger's place. From struct ofi_ctrl_hdr, rxm_cm_data, xnet_rdm_cm, tcpx_base_hdr and rxm_pkt of
 * libfabric 1.17 to 2.6. */
#ifndef KVRAIL_TESTS_ENGINE_FABRIC_WIRE_H
#define KVRAIL_TESTS_ENGINE_FABRIC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LF_EAGER = 4096, LF_UNIT_MAX = 4096 + 80 };

static inline void lf_put(uint8_t *p, uint64_t v, unsigned bytes)
{
	memcpy(p, &v, bytes); /* libfabric writes in its own order; so do we */
}

/* A connect request of an endpoint that listens on this port. Its length. */
static inline size_t lf_request(uint8_t *p, bool rxm, uint16_t port, uint32_t eager)
{
	memset(p, 0, 64);
	p[0] = 3;             /* version of the setting up */
	p[3] = rxm ? 24 : 8;  /* length of what follows, network order */
	lf_put(p + 24, 1, 8); /* byte order */
	if (!rxm) {
		p[32] = 1; /* version */
		p[34] = (uint8_t)(port >> 8);
		p[35] = (uint8_t)port;
		lf_put(p + 36, 0x01020304, 4); /* process */
		return 40;
	}
	p[32] = 1; /* version */
	p[33] = 2; /* little endian */
	p[34] = 4; /* version of rxm's control headers */
	p[35] = 3; /* ... of its operations */
	lf_put(p + 36, port, 2);
	p[38] = 2; /* no flow control */
	lf_put(p + 40, eager, 4);
	lf_put(p + 44, 1024, 4);
	lf_put(p + 48, 0x0000777700000000ull,
	       8); /* process, and the index by which messages to it name the connection */
	return 56;
}

/* The header of everything behind it. */
static inline size_t lf_base(uint8_t *p, uint8_t op, uint16_t flags, uint8_t pieces, uint8_t header, uint64_t size)
{
	memset(p, 0, 16);
	p[0] = 3;
	p[1] = op;
	lf_put(p + 2, flags, 2);
	p[5] = pieces;
	p[6] = header;
	lf_put(p + 8, size, 8);
	return 16;
}

/* A message as we send them. index: by which the receiver names the connection. */
static inline size_t lf_message(uint8_t *p, bool rxm, uint32_t index, const void *data, size_t len)
{
	size_t head = rxm ? 80 : 16;
	lf_base(p, 0, 0, 0, 16, head + len);
	if (rxm) {
		memset(p + 16, 0, 64);
		p[16] = 4;
		lf_put(p + 24, index, 8);
		p[48] = 2;
		lf_put(p + 56, len, 8);
	}
	memcpy(p + head, data, len);
	return head + len;
}

/* A write's header, or (op 2) a read's. imm may be NULL. */
static inline size_t lf_write(uint8_t *p, uint8_t op, const uint64_t *imm, uint64_t addr, uint64_t len, uint64_t key)
{
	uint8_t header = imm ? 48 : 40;
	uint8_t *q = p + lf_base(p, op, imm ? 1 : 0, 1, header, header + (op == 4 ? len : 0));
	if (imm) {
		lf_put(q, *imm, 8);
		q += 8;
	}
	lf_put(q, addr, 8);
	lf_put(q + 8, len, 8);
	lf_put(q + 16, key, 8);
	return header;
}

#endif
