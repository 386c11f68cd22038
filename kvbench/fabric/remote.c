/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c -- listen, dial, and the proof of the key.
 *
 * Each side sends a nonce, then a MAC over its role and both nonces, under the digest of the key file. A stranger is
 * refused before a responder starts. The listener proves one connection at a time, and gives each PROOF_WAIT_NS.
 * Without a key file both addresses are on loopback, and the proof is made under an empty key. */
#include "kvbench/fabric/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kvbench/fabric/end.h"
#include "kvbench/fabric/responder.h"
#include "kvbench/load/bench.h"
#include "kvbench/setup/signals.h"

#define PROOF_WAIT_NS 5000000000ull

enum { KEY_FILE_MAX = 65536, KEY_FILE_MIN = 32, RUNS_MAX = 64, POLL_MS = 50, NONCE = 16 };

static int key_read(const char *path, uint8_t out[KV_DIGEST], struct kv_error *err)
{
	static char text[KEY_FILE_MAX];
	struct stat st;
	ssize_t n = 0;
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (path && (fd < 0 || fstat(fd, &st) < 0 || (n = read(fd, text, sizeof(text))) < 0)) {
		int rc = -errno;
		if (fd >= 0)
			close(fd);
		return kv_fail(err, rc, "--psk-file %s cannot be read: %s", path, kv_strerror(rc));
	}
	if (path)
		close(fd);
	if (path && st.st_mode & (S_IRWXG | S_IRWXO))
		return kv_fail(err, -KV_EDENIED, "--psk-file %s: others may read it: chmod 600 %s", path, path);
	if (path && n < KEY_FILE_MIN)
		return kv_fail(err, -KV_EINVAL, "--psk-file %s holds no key: `kv-server --make-psk FILE` makes one",
			       path);
	return kv_digest(text, (size_t)n, out);
}

/* ---- the proof ---- */

enum { DIALS = 'D', LISTENS = 'L' };

static int tag_make(const uint8_t key[KV_DIGEST], uint8_t role, const uint8_t own[NONCE], const uint8_t other[NONCE],
		    uint8_t out[KV_MAC_TAG])
{
	uint8_t said[1 + 2 * NONCE] = {role};
	struct kv_mac *mac;
	int rc = kv_mac_create(key, &mac);
	if (rc < 0)
		return rc;
	memcpy(said + 1, own, NONCE);
	memcpy(said + 1 + NONCE, other, NONCE);
	rc = kv_mac_tag(mac, own, said, sizeof(said), out);
	kv_mac_destroy(&mac);
	return rc;
}

/* 0, -KV_EDENIED (the other side has another key), or why the connection ended. */
static int prove(int fd, const uint8_t key[KV_DIGEST], uint8_t role)
{
	uint8_t own[NONCE], other[NONCE], tag[KV_MAC_TAG], theirs[KV_MAC_TAG], wanted[KV_MAC_TAG];
	int rc = kv_entropy_fill(&kv_entropy_kernel, own, sizeof(own));
	if (rc == 0)
		rc = end_tell(fd, own, sizeof(own));
	if (rc == 0)
		rc = end_receive(fd, other, sizeof(other), PROOF_WAIT_NS, bench_interrupted);
	if (rc == 0)
		rc = tag_make(key, role, own, other, tag);
	if (rc == 0)
		rc = end_tell(fd, tag, sizeof(tag));
	if (rc == 0)
		rc = end_receive(fd, theirs, sizeof(theirs), PROOF_WAIT_NS, bench_interrupted);
	if (rc == 0)
		rc = tag_make(key, role == DIALS ? LISTENS : DIALS, other, own, wanted);
	return rc == 0 && !kv_equal_secret(theirs, wanted, sizeof(wanted)) ? -KV_EDENIED : rc;
}

/* ---- addresses ---- */

static int address_of(const struct fabric_options *o, const char *option, const char *text,
		      struct sockaddr_storage *out, socklen_t *out_len, struct kv_error *err)
{
	struct kv_hostport hp;
	int rc = kv_hostport_parse(text, &hp, err);
	if (rc == 0)
		rc = kv_hostport_resolve(&hp, out, out_len, err);
	if (rc == 0 && !o->psk_file && !kv_sockaddr_is_loopback(out))
		rc = kv_fail(err, -KV_EINVAL,
			     "%s %s is not on loopback and needs --psk-file "
			     "(`kv-server --make-psk FILE` makes one for both machines)",
			     option, text);
	return rc;
}

static void no_delay(int fd)
{
	int one = 1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* ---- dial ---- */

int fabric_dial(const struct fabric_options *o, int *out_fd, struct kv_error *err)
{
	struct sockaddr_storage to;
	uint8_t key[KV_DIGEST];
	socklen_t len;
	int fd, rc = address_of(o, "--connect", o->connect, &to, &len, err);
	if (rc == 0)
		rc = key_read(o->psk_file, key, err);
	if (rc < 0)
		return rc;
	fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, len) < 0) {
		rc = kv_fail(err, -errno, "%s: %s (is kv-bench fabric --listen running there?)", o->connect,
			     kv_strerror(errno));
	} else {
		no_delay(fd);
		rc = prove(fd, key, DIALS);
		if (rc < 0)
			kv_fail(err, rc, "%s: %s (do both sides have the same --psk-file?)", o->connect,
				kv_strerror(rc));
	}
	if (rc < 0 && fd >= 0)
		close(fd);
	else
		*out_fd = fd;
	explicit_bzero(key, sizeof(key));
	return rc;
}

/* ---- listen ---- */

struct listener {
	const struct fabric_options *opt;
	uint8_t key[KV_DIGEST];
	int fd;
	unsigned runs;
};

static int listen_at(struct listener *l, struct kv_error *err)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);
	int one = 1, rc = address_of(l->opt, "--listen", l->opt->listen, &at, &len, err);
	if (rc < 0)
		return rc;
	l->fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l->fd >= 0)
		(void)setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&at, len) < 0 || listen(l->fd, RUNS_MAX) < 0 ||
	    getsockname(l->fd, (struct sockaddr *)&at, &len) < 0)
		return kv_fail(err, -errno, "--listen %s: %s", l->opt->listen, kv_strerror(errno));
	printf("kv-bench fabric: listening on port %u\n", (unsigned)ntohs(((struct sockaddr_in *)&at)->sin_port));
	fflush(stdout);
	return 0;
}

static void serve_one(struct listener *l, int fd)
{
	struct kv_error err = {0};
	pid_t pid;
	int rc = l->runs < RUNS_MAX ? prove(fd, l->key, LISTENS) : -KV_ELIMIT;
	no_delay(fd);
	if (rc == 0)
		rc = fabric_responder_spawn(l->opt, fd, &pid, &err);
	else if (rc != -KV_ECANCELED)
		kv_fail(&err, rc, "a connection was refused: %s", kv_strerror(rc));
	l->runs += rc == 0;
	if (err.text[0])
		fprintf(stderr, "kv-bench fabric: %s\n", err.text);
}

static void serve(struct listener *l)
{
	while (!bench_interrupted()) {
		struct pollfd p = {.fd = l->fd, .events = POLLIN};
		int fd;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			l->runs--;
		if (poll(&p, 1, POLL_MS) <= 0)
			continue;
		fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		serve_one(l, fd);
		close(fd);
	}
}

int fabric_listen_main(const struct fabric_options *o)
{
	struct listener l = {.opt = o, .fd = -1};
	struct kv_error err = {0};
	int rc = key_read(o->psk_file, l.key, &err);
	if (rc == 0)
		rc = listen_at(&l, &err);
	if (rc == 0)
		serve(&l);
	else
		fprintf(stderr, "kv-bench fabric: %s\n", err.text);
	if (l.fd >= 0)
		close(l.fd);
	explicit_bzero(&l.key, sizeof(l.key));
	if (rc == 0)
		return BENCH_OK;
	return rc == -KV_EINVAL ? BENCH_USAGE : BENCH_NO_START;
}
