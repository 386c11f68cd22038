/* SPDX-License-Identifier: Apache-2.0 */
/* talk.h -- a whole server on threads of its own, and a client of its control connection that is made by hand: in a
 * coroutine, message by message. */
#ifndef KVRAIL_TESTS_KVSERVER_TALK_H
#define KVRAIL_TESTS_KVSERVER_TALK_H

#include "tests/check.h"

#include "bootstrap/bootstrap.h"
#include "engine/engine.h"
#include "kvserver/kvserver.h"
#include "tests/kvserver/hello.h"

#define WAIT_NS 20000000000ull

extern struct loop *loop;
extern struct te *te; /* gives an address and an identity; never polled */
extern struct boot_context *ctx;
extern struct kvs_server *server;
extern const struct kv_log sink; /* takes everything and says nothing */

/* talk_up -- a server of these options, and what its clients need; they have its key if it wants one. talk_down ends
 * both. */
void talk_up(const struct kvs_options *o);
void talk_down(void);

uint64_t soon(void); /* the end of a wait that begins now */

/* in_coroutine -- run fn in a coroutine of `loop`; then fail the test if fn expected anything that was not so.
 * in_coroutine_untold: the same, but the caller has something to clean up before it calls told(). */
void in_coroutine(void (*fn)(void));
void in_coroutine_untold(void (*fn)(void));
void told(void);

/* cmocka fails a test by longjmp, which must not leave a coroutine: the first failure is remembered and told outside.
 */
#define expect(condition)                                                                                              \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			talk_failed(__FILE__, __LINE__, #condition);                                                   \
	} while (0)
void talk_failed(const char *file, int line, const char *what);
bool talk_ok(void); /* nothing has failed yet */

struct sockaddr_storage server_addr(const struct kvs_server *s);

/* dial -- a control connection to s with the credentials of `with`; NULL: there is none. */
struct boot_conn *dial(const struct kvs_server *s, struct boot_context *with);

/* next -- the next message that is no heartbeat: 0, or what boot_recv_await says. */
int next(struct boot_conn *c, struct wire_ctrl_msg *m);

#endif
