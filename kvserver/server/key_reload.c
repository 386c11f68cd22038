/* SPDX-License-Identifier: Apache-2.0 */
/* key_reload.c -- the thread that rereads key files, certificates, revocation lists and tenants while the server runs.
 *
 * A file system that does not answer (NFS) may block a reader for hours, so a thread of its own reads: on request
 * (SIGHUP), and when the CRL file, checked once a second, has changed. It leaves the new keys in `fresh`, from where
 * the control loop takes them. All or nothing: if one file cannot be used, everything stays as it was. A CRL file that
 * could not be taken is retried at each check, but logged once.
 *
 * Server and thread hold a reference each. The thread may be left behind in a read, so struct key_reload has everything
 * it uses, file names included. It touches the server under the lock only, and not after key_reload_end. */
#include "kvserver/server/key_reload.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "kvserver/conn/rights.h"
#include "kvserver/server/server.h"

#define LOOK_NS                1000000000ull
#define KEY_RELOAD_PATIENCE_NS 2000000000ull
#define POST_AGAIN_NS          10000000ull

enum { FILE_PSK, FILE_KEYS, FILE_CERT, FILE_KEY, FILE_CA, FILE_CRL, FILE_TENANTS, FILES };

struct mark {
	ino_t inode;
	off_t bytes;
	struct timespec changed;
};

struct fresh {
	struct boot_context *boot; /* NULL: the present one stays */
	struct boot_keys *keys;
	struct tenants *tenants;
};

struct key_reload {
	char *file[FILES];     /* or NULL */
	uint64_t memory_bytes; /* of the server, with ... */
	unsigned shards;
	struct mark crl; /* at its last read; the thread's */
	bool crl_begun, crl_failed;
	pthread_t thread; /* key_reload_end's */
	/* under the lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct kvs_server *server; /* NULL: it ends */
	const struct kv_log *log;  /* the server's */
	struct fresh fresh;
	unsigned refs, taken, failed; /* taken: successes */
	bool asked, gone;             /* gone: the thread has nothing left to do */
};

static void fresh_fini(struct fresh *f)
{
	boot_context_destroy(&f->boot);
	boot_keys_destroy(&f->keys);
	tenants_unref(&f->tenants);
}

/* ---- memory ---- */

/* A thread left behind may have left untaken keys in `fresh`. */
static void key_reload_free(struct key_reload *k)
{
	fresh_fini(&k->fresh);
	for (unsigned i = 0; i < FILES; i++)
		free(k->file[i]);
	pthread_cond_destroy(&k->changed);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

static void unref_unlock(struct key_reload *k)
{
	bool last = --k->refs == 0;
	pthread_mutex_unlock(&k->lock);
	if (last)
		key_reload_free(k);
}

static int names_copy(struct key_reload *k, const struct kvs_options *o)
{
	const char *const names[FILES] = {
		[FILE_PSK] = o->psk_file,   [FILE_KEYS] = o->session_keys, [FILE_CERT] = o->cert_file,
		[FILE_KEY] = o->key_file,   [FILE_CA] = o->ca_file,        [FILE_CRL] = o->crl_file,
		[FILE_TENANTS] = o->tenants};
	for (unsigned i = 0; i < FILES; i++) {
		k->file[i] = names[i] ? strdup(names[i]) : NULL;
		if (names[i] && !k->file[i])
			return -KV_ENOMEM;
	}
	return 0;
}

static struct key_reload *key_reload_alloc(struct kvs_server *s)
{
	struct key_reload *k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->server = s;
	k->log = s->opt.log;
	k->memory_bytes = s->opt.memory_bytes;
	k->shards = s->opt.shards;
	k->refs = 1;
	pthread_mutex_init(&k->lock, NULL);
	kv_cond_init(&k->changed);
	if (names_copy(k, &s->opt) == 0)
		return k;
	key_reload_free(k);
	return NULL;
}

/* ---- reading: the thread, without the lock ---- */

static int fresh_read(const struct key_reload *k, struct fresh *out, const struct kv_log *log, struct kv_error *err)
{
	const struct boot_security security = {.psk_file = k->file[FILE_PSK],
					       .cert_file = k->file[FILE_CERT],
					       .key_file = k->file[FILE_KEY],
					       .ca_file = k->file[FILE_CA],
					       .crl_file = k->file[FILE_CRL],
					       .crl_kept = true};
	int rc = 0;
	if (k->file[FILE_PSK] || k->file[FILE_CERT])
		rc = boot_context_create(&security, true, log, &out->boot, err);
	if (rc == 0 && k->file[FILE_KEYS])
		rc = boot_keys_load(k->file[FILE_KEYS], &out->keys, err);
	if (rc == 0 && k->file[FILE_TENANTS])
		rc = tenants_load(k->file[FILE_TENANTS], &out->tenants, err);
	if (rc == 0 && k->file[FILE_TENANTS])
		rc = tenants_fit(out->tenants, k->memory_bytes, k->shards, err);
	if (rc)
		fresh_fini(out);
	return rc;
}

/* A missing file is being replaced: its lists stay. */
static bool crl_changed(const struct key_reload *k, struct mark *out)
{
	struct stat st;
	if (!k->file[FILE_CRL] || stat(k->file[FILE_CRL], &st) != 0)
		return false;
	*out = (struct mark){.inode = st.st_ino, .bytes = st.st_size, .changed = st.st_mtim};
	return out->inode != k->crl.inode || out->bytes != k->crl.bytes ||
	       out->changed.tv_sec != k->crl.changed.tv_sec || out->changed.tv_nsec != k->crl.changed.tv_nsec;
}

/* ---- passing the keys on ---- */

static void on_fresh(void *arg)
{
	struct kvs_server *s = arg;
	struct key_reload *k = s->keys.reload;
	struct boot_keys *former = s->keys.of_sessions;
	struct fresh f;
	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	f = k->fresh;
	k->fresh = (struct fresh){0};
	pthread_mutex_unlock(&k->lock);
	if (f.boot)
		boot_context_adopt(s->keys.boot, &f.boot);
	if (f.keys) {
		s->keys.of_sessions = f.keys;
		boot_keys_destroy(&former); /* no coroutine keeps one of them over a wait */
	}
	if (f.tenants)
		grants_renew(s, &f.tenants);
}

static void wait_until(struct key_reload *k, uint64_t until_ns)
{
	struct timespec at = {.tv_sec = (time_t)(until_ns / 1000000000ull),
			      .tv_nsec = (long)(until_ns % 1000000000ull)};
	pthread_cond_timedwait(&k->changed, &k->lock, &at);
}

/* Later keys replace untaken ones. */
static void hand_over(struct key_reload *k, const struct fresh *f)
{
	fresh_fini(&k->fresh);
	k->fresh = *f;
	while (k->server && loop_post(k->server->control, on_fresh, k->server) != 0)
		wait_until(k, kv_now() + POST_AGAIN_NS);
}

/* Under the lock, released while reading. `asked`: key_reload_ask was called; else the CRL file has changed. */
static void read_again(struct key_reload *k, bool asked, const struct mark *crl)
{
	struct kv_log log = {0}; /* a copy: this thread may outlive the server. Its level may change at this moment. */
	struct kv_error err = {0};
	struct fresh f = {0};
	int rc;
	if (k->log)
		log = (struct kv_log){.write = k->log->write,
				      .event = k->log->event,
				      .arg = k->log->arg,
				      .level = kv_log_level(k->log)};
	pthread_mutex_unlock(&k->lock);
	rc = fresh_read(k, &f, &log, &err);
	pthread_mutex_lock(&k->lock);
	if (rc) {
		k->failed++;
		if (k->server)
			control_set(k->server, WIRE_STAT_RELOADS_FAILED, k->failed);
		if (k->server && (asked || !k->crl_failed))
			kv_event(k->log, KV_LOG_WARN, KV_EVENT("keys_failed", KV_FIELD("reason", err.text)),
				 "%s; the former keys, certificates and tenants stay in force", err.text);
		k->crl_failed = !asked || k->crl_failed;
		return;
	}
	k->crl_failed = false;
	k->crl = *crl;
	hand_over(k, &f);
	if (!k->server)
		return;
	k->taken++;
	if (asked)
		kv_event(k->log, KV_LOG_INFO, KV_EVENT("keys_read"),
			 "keys and certificates were reread, for connections from now on");
	else if (k->crl_begun)
		kv_event(k->log, KV_LOG_INFO, KV_EVENT("crl_read", KV_FIELD("file", k->file[FILE_CRL])),
			 "CRL file %s was reread", k->file[FILE_CRL]);
	k->crl_begun = true; /* the first time, it may be the file that the server began with */
}

static void *key_reload_run(void *arg)
{
	struct key_reload *k = arg;
	struct mark mark = {0};
	bool asked, changed;
	pthread_mutex_lock(&k->lock);
	while (k->server) {
		asked = k->asked;
		k->asked = false;
		pthread_mutex_unlock(&k->lock);
		changed = crl_changed(k, &mark);
		pthread_mutex_lock(&k->lock);
		if (k->server && (asked || changed))
			read_again(k, asked, &mark);
		if (k->server && !k->asked && k->file[FILE_CRL])
			wait_until(k, kv_now() + LOOK_NS);
		while (k->server && !k->asked && !k->file[FILE_CRL])
			pthread_cond_wait(&k->changed, &k->lock);
	}
	k->gone = true;
	pthread_cond_broadcast(&k->changed);
	unref_unlock(k);
	return NULL;
}

/* ---- the server's side ---- */

int key_reload_start(struct kvs_server *s, struct key_reload **out, struct kv_error *err)
{
	const struct kvs_options *o = &s->opt;
	struct key_reload *k;
	int rc;
	*out = NULL;
	if (!o->psk_file && !o->cert_file && !o->session_keys && !o->tenants)
		return 0;
	k = key_reload_alloc(s);
	if (!k)
		return kv_fail(err, -KV_ENOMEM, "no memory for rereading keys");
	k->refs++;
	rc = pthread_create(&k->thread, NULL, key_reload_run, k);
	if (rc) {
		key_reload_free(k);
		return kv_fail(err, -rc, "starting the thread that rereads keys: %s", kv_strerror(-rc));
	}
	*out = k;
	return 0;
}

bool key_reload_ask(struct key_reload *k)
{
	if (!k)
		return false;
	pthread_mutex_lock(&k->lock);
	k->asked = true;
	pthread_cond_broadcast(&k->changed);
	pthread_mutex_unlock(&k->lock);
	return true;
}

void key_reload_rounds(struct key_reload *k, unsigned *out_taken, unsigned *out_failed)
{
	pthread_mutex_lock(&k->lock);
	*out_taken = k->taken;
	*out_failed = k->failed;
	pthread_mutex_unlock(&k->lock);
}

void key_reload_end(struct key_reload **keeper)
{
	struct key_reload *k = *keeper;
	uint64_t until_ns = kv_now() + KEY_RELOAD_PATIENCE_NS;
	pthread_t thread;
	bool gone;
	if (!k)
		return;
	*keeper = NULL;
	thread = k->thread;
	pthread_mutex_lock(&k->lock);
	k->server = NULL;
	pthread_cond_broadcast(&k->changed);
	while (!k->gone && kv_now() < until_ns)
		wait_until(k, until_ns);
	gone = k->gone;
	fresh_fini(&k->fresh);
	unref_unlock(k);
	/* It waits for nothing more. exit() must not overtake OpenSSL's clean-up of the thread. */
	if (gone)
		pthread_join(thread, NULL);
	else
		pthread_detach(thread);
}
