/* SPDX-License-Identifier: Apache-2.0 */
/* control.h -- what tests of control connections share, on top of talk.h: the server of a group, messages, counters,
 * and a look at the server's first shard. All of it in a coroutine, but server_options and the set-ups. */
#ifndef KVRAIL_TESTS_KVSERVER_CONTROL_H
#define KVRAIL_TESTS_KVSERVER_CONTROL_H

#include "tests/kvserver/talk.h"

enum { SHARDS = 2, CLIENTS = 4 };

static const char psk[] = "test:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/* server_options -- of the server that group_up starts: SHARDS shards, CLIENTS clients, a beat every 20 ms. */
struct kvs_options server_options(void);
int group_up(void **state);
int group_down(void **state);

/* ---- connections ---- */

/* greet -- dial and say hello; *m is the answer. again -- say HELLO again, which names the attachment that *m welcomed;
 * *m is the answer. prior_set -- have *h name it. leave -- say goodbye and close. */
struct boot_conn *greet(struct wire_ctrl_msg *m);
void again(struct boot_conn *c, struct wire_ctrl_msg *m);
void prior_set(struct wire_ctrl_msg *h, const struct wire_ctrl_msg *welcome);
void leave(struct boot_conn *c);

/* region -- a REGION of one part and one rail. ask_region -- send it; the status that the server answers. */
struct wire_ctrl_msg region(uint32_t id, uint64_t len);
int32_t ask_region(struct boot_conn *c, uint32_t id, uint64_t len);

/* raw -- a bare socket that has said `len` bytes. only_beats -- the server says n heartbeats, and nothing between them.
 */
int raw(const void *bytes, size_t len);
void only_beats(struct boot_conn *c, unsigned n);

/* ---- the server ---- */

/* control_stat -- a counter of the control loop. becomes -- whether it has this value soon. open_becomes -- whether the
 * server has so many clients soon, further sessions among them. */
uint64_t control_stat(enum wire_stat id);
bool becomes(enum wire_stat id, uint64_t value);
bool open_becomes(unsigned want);

/* look -- see what the first shard has now, taken on its loop. sessions_become -- expect that it has so many
 * attachments soon, and that so many of them are ending. */
extern struct first_shard {
	_Atomic bool taken;
	unsigned requests, ending, sessions, clients;
	uint64_t unknown, fences, fenced_ns;
} seen;
void look(void);
void sessions_become(unsigned all, unsigned ending);

/* hold -- keep this attachment from being over on the first shard, as a transfer that does not end would. release --
 * let it be over. */
void hold(uint32_t number);
void release(uint32_t number);

/* endpoint_rebuild -- the endpoint of the first shard. */
void endpoint_rebuild(void);

#endif
