/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h -- for the tests of bootstrap/: a loop, a listening socket on loopback, one context per side, coroutines with a
 * bounded life, and a scratch directory with certificates of two authorities. */
#ifndef KVRAIL_TESTS_BOOTSTRAP_RIG_H
#define KVRAIL_TESTS_BOOTSTRAP_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/bootstrap.h"

#define SECOND      1000000000ull
#define MILLISECOND 1000000ull

extern const char *const rig_psk; /* "bench:00112233..." */

struct rig {
	struct loop *loop;
	struct boot_context *server, *client; /* NULL when this side has no security */
	int listen_fd;
	struct sockaddr_storage addr;
	unsigned running;    /* coroutines of rig_spawn */
	const char *dialled; /* the name that the client dials; NULL: 127.0.0.1 */
	/* set by rig_open: the two ends, or the errors */
	uint64_t open_timeout_ns;
	struct boot_conn *c, *s;
	int c_rc, s_rc;
	struct kv_error c_err, s_err;
};

/* rig_init -- begin with the security of each side (NULL: that side gets no context). Fails the test on an error. */
void rig_init(struct rig *r, const struct boot_security *server, const struct boot_security *client);
void rig_fini(struct rig *r); /* closes the connections too */

/* rig_spawn -- run fn(r) as a coroutine. rig_run -- turn the loop until all coroutines have ended; fails the test after
 * a minute. */
void rig_spawn(struct rig *r, void (*fn)(struct rig *r));
void rig_run(struct rig *r);

/* rig_open -- connect and accept; the results are in the struct. rig_open_ok -- the same, and both must succeed. */
void rig_open(struct rig *r);
void rig_open_ok(struct rig *r);
void rig_accept_only(struct rig *r); /* a coroutine's body: accept into r->s, r->s_rc */
void rig_connect_only(struct rig *r);

/* rig_raw_connect, rig_raw_accept -- a bare socket as one end. Park. */
int rig_raw_connect(struct rig *r);
int rig_raw_accept(struct rig *r);

uint64_t rig_in(const struct rig *r, uint64_t ns); /* a deadline */

/* A scratch directory. rig_scratch_drop removes it with its contents. */
const char *rig_scratch(void);
void rig_scratch_drop(void);
/* rig_file -- write text to a file of this mode in the scratch directory. Returns its path (static, one of 16 in turn).
 */
const char *rig_file(const char *name, const char *text, unsigned mode);
/* rig_path -- "SCRATCH/sub/name" (static, one of 16 in turn). */
const char *rig_path(const char *sub, const char *name);
/* rig_certs -- make certificates, once: in SCRATCH/certs; of another authority in SCRATCH/foreign. rig_certs_rsa --
 * with RSA keys, in SCRATCH/rsa; that takes seconds. */
void rig_certs(void);
void rig_certs_rsa(void);

struct boot_security rig_security_psk(void);
struct boot_security rig_security_cert(const char *authority,
				       const char *who); /* "certs" or "foreign"; "server" or "client" */

struct wire_ctrl_msg rig_heartbeat(uint64_t sequence);
unsigned rig_open_fds(void);

#endif
