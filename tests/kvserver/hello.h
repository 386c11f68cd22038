/* SPDX-License-Identifier: Apache-2.0 */
/* hello.h -- the first message of a client with one rail, made by hand. */
#ifndef KVRAIL_TESTS_KVSERVER_HELLO_H
#define KVRAIL_TESTS_KVSERVER_HELLO_H

#include "engine/engine.h"
#include "wire/wire.h"

/* hello_make -- provider, eager size and address are those of te. */
static inline struct wire_ctrl_msg hello_make(struct te *te)
{
	struct wire_ctrl_msg m = {.type = WIRE_CTRL_HELLO};
	struct te_address addr = {.len = 0};
	struct te_info info;
	te_info(te, &info);
	te_address(te, 0, &addr);
	m.hello.version_min = m.hello.version_max = WIRE_VERSION;
	m.hello.loops = m.hello.rails = 1;
	m.hello.eager_bytes = info.eager_bytes;
	m.hello.chunk_bytes = 1 << 20;
	m.hello.client_id = 100;
	m.hello.incarnation = 1;
	memcpy(m.hello.provider, info.provider, KV_NAME_MAX);
	memcpy(m.hello.fabric, info.fabric, KV_NAME_MAX);
	m.hello.addr[0].len = addr.len;
	memcpy(m.hello.addr[0].data, addr.data, addr.len);
	return m;
}

#endif
