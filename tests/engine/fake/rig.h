/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h -- one engine on the fake fabric, a standing clock, a local region and a remote one that is only numbers. */
#ifndef KVRAIL_TESTS_ENGINE_FAKE_RIG_H
#define KVRAIL_TESTS_ENGINE_FAKE_RIG_H

#include "tests/engine/fake/fake.h"
#include "tests/engine/node.h"

enum { CHUNK = 1000, LEN = 1 << 20 };

extern struct node n;
extern struct area area, far;

/* Open the engine: with these options and depths; with one rail and the depths of most tests; with several rails. */
void open_with(struct te_options o, uint32_t tx_depth, uint32_t cq_depth);
void open_plain(void);
void open_rails(unsigned rails);
/* Transfers may be under way: te_close ends them. */
void close_all(void);

/* A new peer of the engine at this address. */
struct te_peer *peer(uint16_t handle);

/* Start a transfer of the first `len` bytes; te_xfer_start must say `expect`. */
void start(struct te_xfer *x, struct result *r, enum te_dir dir, struct te_peer *p, uint64_t len, int expect);

/* A turn of the engine. */
void turn(void);

/* The endpoint of a rail dies, and the engine hears of it. */
void rail_dies(unsigned rail);

/* How many parts are registered, of all rails. */
unsigned registered(void);

#endif
