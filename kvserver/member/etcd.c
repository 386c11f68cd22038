/* SPDX-License-Identifier: Apache-2.0 */
/* etcd.c -- members in etcd (v3 JSON gateway): this server registers itself with a lease, and reads and watches a
 * prefix.
 *
 * One call is in flight at a time, besides the watch, and etcd_turn chooses the next: token (with --members-user),
 * lease, put, range, watch from the range's revision + 1. Then the lease is renewed after half of its time, and the
 * prefix is reread each minute, since old etcds repeat and lose events. A watch that ends is followed by a range.
 *
 * After a failed or late call everything uses the next endpoint. After all have failed, the source is in trouble, and
 * retries with pauses shorter than a lease. Renewals come first and need no token, so no wrong password or full etcd
 * ends a lease. A renewal without a TTL means that the lease is gone: take another, and put the key again; likewise if
 * watch or range lack our key.
 *
 * Keys with another '/' belong to another cluster, except PREFIX/incarnation, the mark of this etcd, part of the
 * source's number: epochs of a restarted etcd are not compared with earlier ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvserver/member/etcd_text.h"
#include "kvserver/member/source.h"
#include "kvserver/member/text.h"
#include "kvserver/member/web.h"

enum {
	ENDPOINTS_MAX = 16,
	PREFIX_MAX = 256,
	URL_MAX = 512,
	TOKEN_MAX = 4096,
	PAUSE_ROUNDS_MAX = 5,
	LEASE_MAX_S = 3600,
	WATCHES_LOST_SAID = 4
};

#define SECOND_NS      1000000000ull
#define REREAD_NS      (60 * SECOND_NS)
#define SILENCE_NS     (11 * 60 * SECOND_NS) /* of a watch: etcd sends a message every 10 minutes */
#define LIMIT_MIN_NS   (SECOND_NS / 2)
#define LIMIT_MAX_NS   (5 * SECOND_NS)
#define PAUSE_NS       (SECOND_NS / 5) /* after all endpoints have failed; doubled each time */
#define REFUSED_NS     (3 * SECOND_NS)
#define WATCH_PAUSE_NS (SECOND_NS / 4) /* from the end of a watch to the next range; doubled after each short one */
#define WATCH_LASTS_NS (30 * SECOND_NS)

enum doing { NOTHING, AUTH, GRANT, PUT, KEEPALIVE, RANGE, MARK, REVOKE };

/* etcd's authentication. */
struct login {
	char token[TOKEN_MAX];
	unsigned lost;     /* tokens refused in a row */
	bool off;          /* etcd has no authentication */
	uint64_t retry_ns; /* no question that needs a token before this time */
};

/* This server's key and its lease. */
struct registration {
	struct kv_member self;
	char lease[ETCD_LEASE_MAX]; /* "": none */
	uint64_t up_ns;             /* joining until then */
	bool away;
	uint64_t keepalive_ns, retry_ns, put_revision;
	bool put_done, put_stale, foreign; /* put_stale: the value being put has changed */
	bool logged;                       /* a failure */
	bool left;
};

/* The members, and the mark of this etcd. */
struct reading {
	struct kv_view known;
	uint64_t number;
	char mark[ETCD_MARK_LEN + 1]; /* "": etcd has none */
	char mark_new[ETCD_MARK_LEN + 1];
	bool mark_wanted;
	uint64_t mark_retry_ns;
	uint64_t revision, reread_ns, retry_ns;
	uint64_t watch_ns;                    /* its start */
	unsigned watches_lost;                /* in a row, each short */
	bool listed, strange_logged, changed; /* listed: `known` matches etcd, and a watch may follow */
};

struct source {
	struct source_setup setup;
	char url[ENDPOINTS_MAX][URL_MAX], prefix[PREFIX_MAX];
	unsigned urls, at, failed; /* failed: endpoints in a row */
	enum doing doing;
	struct web_call *call, *watch;
	uint64_t sent_ns, retry_ns;
	struct login login;
	struct registration own;
	struct reading read;
};

/* ---- the option ---- */

static int url_take(const char *text, size_t len, char out[URL_MAX], struct kv_error *err)
{
	struct kv_hostport hp;
	if (len >= URL_MAX)
		return kv_fail(err, -KV_EINVAL, "an endpoint is longer than %d characters", URL_MAX - 1);
	snprintf(out, URL_MAX, "%.*s", (int)len, text);
	if (strncmp(out, "http://", 7) != 0 && strncmp(out, "https://", 8) != 0)
		return kv_fail(err, -KV_EINVAL, "'%.100s' begins neither with http:// nor with https://", out);
	if (strchr(out, '@'))
		return kv_fail(err, -KV_EINVAL,
			       "the URL has a user in it: give --members-user and --members-password-file, which a "
			       "list of processes does not show");
	return kv_hostport_parse(out, &hp, err);
}

/* "URL,URL/PREFIX" */
static int spec_parse(const char *spec, struct source *out, struct kv_error *err)
{
	const char *end, *slash;
	int rc = 0;
	out->urls = 0;
	snprintf(out->prefix, sizeof(out->prefix), "/kvrail/");
	for (const char *at = spec; rc == 0; at = end + 1) {
		end = at + strcspn(at, ",");
		slash = strstr(at, "://");
		slash = slash && slash < end ? memchr(slash + 3, '/', (size_t)(end - slash - 3)) : NULL;
		if (out->urls == ENDPOINTS_MAX)
			return kv_fail(err, -KV_EINVAL, "more than %d endpoints", ENDPOINTS_MAX);
		if (slash && slash[1] && *end == ',')
			return kv_fail(err, -KV_EINVAL, "the prefix of the keys belongs behind the last URL only");
		if (slash && slash[1] && (size_t)(end - slash) + 2 > sizeof(out->prefix))
			return kv_fail(err, -KV_EINVAL, "the prefix is longer than %d characters", PREFIX_MAX - 2);
		if (slash && slash[1])
			snprintf(out->prefix, sizeof(out->prefix), "%.*s%s", (int)(end - slash), slash,
				 end[-1] == '/' ? "" : "/");
		rc = url_take(at, (size_t)((slash ? slash : end) - at), out->url[out->urls++], err);
		if (*end == '\0')
			break;
	}
	return rc;
}

static int etcd_check(const struct source_setup *setup, struct kv_error *err)
{
	struct source *s = calloc(1, sizeof(*s));
	int rc = s ? spec_parse(setup->spec, s, err) : kv_fail(err, -KV_ENOMEM, "no memory for --members");
	free(s);
	if (rc)
		return kv_fail_more(err, "--members etcd");
	if (!setup->user != !setup->password_file)
		return kv_fail(err, -KV_EINVAL, "--members-user and --members-password-file go together");
	if (setup->user && !text_utf8(setup->user))
		return kv_fail(err, -KV_EINVAL, "--members-user is not in UTF-8, which etcd requires");
	if (strchr(setup->self.node_id, '/'))
		return kv_fail(err, -KV_EINVAL,
			       "'%s' cannot be the name of a server in etcd: "
			       "'/' begins the keys of another cluster there; give another --node-id",
			       setup->self.node_id);
	if (!setup->cert_file != !setup->key_file)
		return kv_fail(err, -KV_EINVAL, "--members-cert and --members-key go together");
	return 0;
}

static int etcd_open(const struct source_setup *setup, struct source **out)
{
	struct source *s = calloc(1, sizeof(*s));
	if (!s)
		return -KV_ENOMEM;
	s->setup = *setup;
	s->own.self = setup->self;
	s->own.self.state = KV_MEMBER_JOINING;
	s->own.up_ns = kv_now() + setup->joining_ns / setup->pace;
	spec_parse(setup->spec, s, NULL);
	*out = s;
	return 0;
}

static void etcd_close(struct source **source)
{
	struct source *s = *source;
	web_cancel(&s->call);
	web_cancel(&s->watch);
	kv_view_fini(&s->read.known);
	explicit_bzero(s->login.token, sizeof(s->login.token));
	free(s);
	*source = NULL;
}

/* ---- trouble ---- */

static void trouble(struct source *s, const char *what, const char *why)
{
	char text[512];
	snprintf(text, sizeof(text), "%s%s%.300s", what, what[0] ? ": " : "", why);
	s->setup.sink->trouble(s->setup.sink->arg, text);
}

static uint64_t limit_ns(const struct source *s)
{
	return KV_MIN(KV_MAX(s->setup.lease_ns / 6, LIMIT_MIN_NS), LIMIT_MAX_NS);
}

static void watch_drop(struct source *s)
{
	web_cancel(&s->watch);
	s->read.listed = false;
}

/* This endpoint is unusable now. */
static void endpoint_fail(struct source *s, const char *why)
{
	unsigned rounds = ++s->failed / s->urls;
	uint64_t pause = (PAUSE_NS << KV_MIN(rounds - 1, (unsigned)PAUSE_ROUNDS_MAX)) / s->setup.pace;
	kv_debug(s->setup.log, "--members etcd: %s: %s", s->url[s->at], why);
	watch_drop(s);
	if (s->failed % s->urls == 0) {
		trouble(s, s->url[s->at], why);
		s->retry_ns = kv_now() + KV_MIN(pause, s->setup.lease_ns / 4);
	}
	s->at = (s->at + 1) % s->urls;
}

static void renew_later(struct source *s)
{
	s->own.keepalive_ns = kv_now() + KV_MIN(REFUSED_NS / s->setup.pace, s->setup.lease_ns / 8);
}

/* The next range shows the outcome: ours, or that of a faster server. */
static void mark_done(struct source *s)
{
	s->read.mark_wanted = false;
	s->read.mark_retry_ns = kv_now() + REREAD_NS / 2 / s->setup.pace;
}

/* Whether others know this server. A first registration is no return. */
static void away(struct source *s, bool lost)
{
	const struct source_sink *sink = s->setup.sink;
	if (sink->away && lost != s->own.away && (!lost || s->own.put_revision != 0))
		sink->away(sink->arg, lost);
	s->own.away = lost && s->own.put_revision != 0;
}

/* etcd has answered with a refusal. */
static void refused(struct source *s, enum doing doing, const char *why)
{
	uint64_t again = kv_now() + REFUSED_NS / s->setup.pace;
	if (doing == AUTH && strstr(why, "authentication is not enabled")) {
		s->login.off = true;
		return;
	}
	if (doing == AUTH || doing == RANGE) {
		trouble(s, doing == AUTH ? "the user is refused" : "members cannot be read", why);
		if (doing == AUTH)
			s->login.retry_ns = again;
		s->read.retry_ns = again;
		return;
	}
	if (doing == MARK) {
		kv_debug(s->setup.log, "--members etcd: no mark can be put: %s", why);
		mark_done(s);
		return;
	}
	if (doing == PUT && strstr(why, "lease not found")) {
		away(s, true);
		s->own.lease[0] = '\0';
		return;
	}
	if (doing == KEEPALIVE)
		renew_later(s);
	else
		s->own.retry_ns = again;
	if (!s->own.logged)
		kv_event(s->setup.log, KV_LOG_WARN, KV_EVENT("register_failed", KV_FIELD("reason", why)),
			 "--members etcd: this server cannot be registered: %s; it keeps serving, and retries", why);
	s->own.logged = true;
}

static void token_lost(struct source *s, enum doing doing, const char *why)
{
	uint64_t again = kv_now() + REFUSED_NS / s->setup.pace;
	if (doing == KEEPALIVE) /* an etcd that requires a token for renewals */
		renew_later(s);
	if (s->setup.user && s->login.lost++ == 0) {
		kv_debug(s->setup.log, "--members etcd: %s: requesting another token", why);
		s->login.token[0] = '\0';
		s->login.off = false;
		return;
	}
	s->login.token[0] = '\0';
	trouble(s, s->setup.user ? "the token is refused" : "it requires --members-user and --members-password-file",
		why);
	s->login.retry_ns = again;
}

/* ---- members ---- */

static void strange_key(struct source *s, const json_t *kv)
{
	if (!s->read.strange_logged)
		kv_event(s->setup.log, KV_LOG_WARN,
			 KV_EVENT("member_ignored", KV_FIELD("prefix", s->prefix),
				  KV_FIELD("key", text_string(kv, "key"))),
			 "--members etcd: a key below %s (base64: %.100s) is not a member, and is ignored", s->prefix,
			 text_string(kv, "key"));
	s->read.strange_logged = true;
}

static void self_look(struct source *s)
{
	const struct kv_member *there = kv_view_find(&s->read.known, s->own.self.node_id);
	if (!s->own.put_done)
		return;
	if (!there) { /* renew: if the lease exists, only the key was deleted */
		away(s, true);
		s->own.put_done = s->own.foreign = false;
		s->own.keepalive_ns = s->own.lease[0] ? 0 : s->own.keepalive_ns;
		return;
	}
	if (there->incarnation != s->own.self.incarnation && !s->own.foreign) {
		s->own.foreign = true;
		kv_event(s->setup.log, KV_LOG_WARN,
			 KV_EVENT("name_taken", KV_FIELD("node_id", s->own.self.node_id),
				  KV_FIELD("address", there->address)),
			 "--members etcd: another server, at %s, has also registered as %s: "
			 "only one of them is used; give each its own --node-id",
			 there->address, s->own.self.node_id);
	} else if (there->incarnation == s->own.self.incarnation) {
		s->own.foreign = false;
	}
}

static void members_report(struct source *s)
{
	s->read.known.source = s->read.number;
	s->read.known.epoch = s->read.revision;
	s->setup.sink->members(s->setup.sink->arg, &s->read.known);
}

static bool range_read(struct source *s, const json_t *answer, struct kv_view *out, char mark[ETCD_MARK_LEN + 1])
{
	char text[ETCD_MARK_LEN + 1];
	const json_t *kv;
	struct kv_member m;
	size_t i;
	int rc = 0;
	json_array_foreach(json_object_get(answer, "kvs"), i, kv)
	{
		if (etcd_mark_read(kv, s->prefix, text))
			memcpy(mark, text, sizeof(text));
		else if (!etcd_member_read(kv, s->prefix, &m))
			strange_key(s, kv);
		else if (rc == 0)
			rc = members_put(out, &m);
	}
	return rc == 0;
}

/* found: etcd's mark, or "". False: a mark is put first, and then the members are reread. A known mark is restored if
 * its key alone is missing. */
static bool mark_take(struct source *s, const char found[ETCD_MARK_LEN + 1])
{
	uint64_t random = 0;
	if (found[0])
		memcpy(s->read.mark, found, sizeof(s->read.mark));
	if (found[0] || kv_now() < s->read.mark_retry_ns ||
	    kv_entropy_fill(&kv_entropy_kernel, &random, sizeof(random)))
		return true;
	if (s->read.mark[0])
		memcpy(s->read.mark_new, s->read.mark, sizeof(s->read.mark));
	else
		snprintf(s->read.mark_new, sizeof(s->read.mark_new), "%016llx", (unsigned long long)random);
	s->read.mark_wanted = true;
	return false;
}

static void number_make(struct source *s, const json_t *answer)
{
	char name[PREFIX_MAX + ETCD_MARK_LEN + 32];
	snprintf(name, sizeof(name), "%.20s %s %s", text_string(json_object_get(answer, "header"), "cluster_id"),
		 s->read.mark, s->prefix);
	s->read.number = members_source(s->setup.cluster, "etcd", name);
}

static void on_range(struct source *s, const json_t *answer)
{
	uint64_t revision = etcd_revision(answer);
	char mark[ETCD_MARK_LEN + 1] = "";
	struct kv_view list = {0};
	if (revision == 0 || !range_read(s, answer, &list, mark)) {
		refused(s, RANGE, revision ? "too many members, or no memory" : "the answer has no revision");
		kv_view_fini(&list);
		return;
	}
	if (revision < s->read.revision) {
		kv_event(s->setup.log, KV_LOG_WARN,
			 KV_EVENT("etcd_restored", KV_NUMBER("from", s->read.revision), KV_NUMBER("to", revision)),
			 "--members etcd: the revision fell from %llu to %llu: etcd was restored or recreated",
			 (unsigned long long)s->read.revision, (unsigned long long)revision);
		s->own.put_revision = 0;
		s->read.revision = revision;
		s->read.mark[0] = '\0';
		s->read.mark_retry_ns = 0;
		watch_drop(s);
	}
	if (!mark_take(s, mark)) {
		kv_view_fini(&list);
		return;
	}
	number_make(s, answer);
	if (s->watch && !kv_view_same(&list, &s->read.known)) {
		kv_debug(s->setup.log, "--members etcd: the watch had missed a change");
		watch_drop(s);
	}
	kv_view_fini(&s->read.known);
	s->read.known = list;
	s->read.revision = revision;
	s->read.listed = true;
	s->read.reread_ns = kv_now() + REREAD_NS / s->setup.pace;
	if (revision >= s->own.put_revision)
		self_look(s);
	members_report(s);
}

static int event_apply(struct source *s, const json_t *event)
{
	const json_t *kv = json_object_get(event, "kv");
	uint64_t revision = text_u64(kv, "mod_revision");
	struct kv_member m;
	char id[KV_NAME_MAX], mark[ETCD_MARK_LEN + 1];
	int rc = 0;
	if (revision < s->read.revision) /* known; an old etcd may repeat it */
		return 0;
	if (etcd_mark_read(kv, s->prefix, mark)) { /* somebody has put or deleted it */
		s->read.listed = false;
		return 0;
	}
	if (strcmp(text_string(event, "type"), "DELETE") == 0) {
		if (etcd_id_read(kv, s->prefix, id))
			members_remove(&s->read.known, id);
	} else if (etcd_member_read(kv, s->prefix, &m)) {
		rc = members_put(&s->read.known, &m);
	} else {
		strange_key(s, kv);
		if (etcd_id_read(kv, s->prefix, id))
			members_remove(&s->read.known, id);
	}
	s->read.revision = revision;
	s->read.changed = true;
	return rc;
}

static void on_events(struct source *s, const json_t *result)
{
	const json_t *event;
	size_t i;
	s->read.watches_lost = json_array_size(json_object_get(result, "events")) ? 0 : s->read.watches_lost;
	json_array_foreach(json_object_get(result, "events"), i, event)
	{
		if (event_apply(s, event)) {
			watch_drop(s);
			return;
		}
	}
	if (json_is_true(json_object_get(result, "fragment")))
		return;
	if (s->read.changed) {
		s->read.changed = false;
		if (s->read.revision >= s->own.put_revision)
			self_look(s);
		members_report(s);
	} else {
		s->setup.sink->alive(s->setup.sink->arg);
	}
}

static void watch_over(struct source *s, const char *why)
{
	uint64_t now = kv_now();
	kv_debug(s->setup.log, "--members etcd: the watch has ended: %s", why);
	s->read.watches_lost = now - s->read.watch_ns > WATCH_LASTS_NS ? 0 : s->read.watches_lost + 1;
	if (s->read.watches_lost == WATCHES_LOST_SAID)
		kv_event(s->setup.log, KV_LOG_WARN, KV_EVENT("watch_lost", KV_FIELD("reason", why)),
			 "--members etcd: no watch lasts: %s; polling the members instead, which shows changes later",
			 why);
	watch_drop(s);
	s->read.retry_ns =
		now + (WATCH_PAUSE_NS << KV_MIN(s->read.watches_lost, (unsigned)PAUSE_ROUNDS_MAX)) / s->setup.pace;
	if (etcd_error_is_auth(why) && s->setup.user)
		s->login.token[0] = '\0';
}

static void on_watch_line(void *arg, const char *line, size_t len)
{
	struct source *s = arg;
	json_t *answer = text_json(line, len);
	const json_t *result = json_object_get(answer, "result");
	if (!result)
		watch_over(s, answer ? etcd_error(answer) : "no JSON");
	else if (text_u64(result, "compact_revision"))
		watch_over(s, "the revision is compacted");
	else if (json_is_true(json_object_get(result, "canceled")))
		watch_over(s, text_string(result, "cancel_reason"));
	else
		on_events(s, result);
	json_decref(answer);
}

static void on_watch_done(void *arg, const struct web_answer *answer)
{
	struct source *s = arg;
	json_t *body = answer->error ? NULL : text_json(answer->body, answer->len);
	const char *why = answer->error ? answer->error : etcd_error(body);
	s->watch = NULL;
	watch_over(s, why[0] ? why : "it was closed");
	json_decref(body);
}

/* ---- calls ---- */

static void on_token(struct source *s, const json_t *answer)
{
	const char *token = text_string(answer, "token");
	if (!token[0] || strlen(token) >= sizeof(s->login.token))
		refused(s, AUTH, "the answer has no token, or too long a one");
	else
		snprintf(s->login.token, sizeof(s->login.token), "%s", token);
}

static void lease_renewed(struct source *s, uint64_t seconds)
{
	seconds = KV_MIN(seconds, (uint64_t)LEASE_MAX_S);
	s->own.keepalive_ns = s->sent_ns + seconds * SECOND_NS / 2;
}

static void on_grant(struct source *s, const json_t *answer)
{
	const char *id = text_string(answer, "ID");
	uint64_t seconds = text_u64(answer, "TTL");
	if (!id[0] || strlen(id) >= sizeof(s->own.lease) || seconds == 0) {
		refused(s, GRANT, "the answer has no lease");
		return;
	}
	snprintf(s->own.lease, sizeof(s->own.lease), "%s", id);
	s->own.put_done = false;
	lease_renewed(s, seconds);
}

static void on_keepalive(struct source *s, const json_t *answer)
{
	uint64_t seconds = text_u64(json_object_get(answer, "result"), "TTL");
	if (seconds) {
		lease_renewed(s, seconds);
		return;
	}
	kv_event(s->setup.log, KV_LOG_WARN, KV_EVENT("lease_lost"),
		 "--members etcd: the lease of this server has expired or was revoked: registering again");
	away(s, true);
	s->own.lease[0] = '\0';
	s->own.put_done = false;
}

static void on_put(struct source *s, const json_t *answer)
{
	bool first = s->own.put_revision == 0;
	s->own.put_done = !s->own.put_stale;
	s->own.put_revision = etcd_revision(answer);
	away(s, false);
	if (s->own.logged || first)
		kv_event(s->setup.log, KV_LOG_INFO, KV_EVENT("registered"),
			 "--members etcd: this server is registered");
	s->own.logged = false;
}

static void answer_take(struct source *s, enum doing doing, const json_t *answer)
{
	s->login.lost = doing == AUTH || doing == KEEPALIVE ? s->login.lost : 0;
	if (doing == AUTH)
		on_token(s, answer);
	else if (doing == GRANT)
		on_grant(s, answer);
	else if (doing == PUT)
		on_put(s, answer);
	else if (doing == KEEPALIVE)
		on_keepalive(s, answer);
	else if (doing == RANGE)
		on_range(s, answer);
	else if (doing == MARK)
		mark_done(s);
}

static void on_answer(void *arg, const struct web_answer *a)
{
	struct source *s = arg;
	enum doing doing = s->doing;
	json_t *answer = a->error ? NULL : text_json(a->body, a->len);
	const char *words = answer ? etcd_error(answer) : "";
	char why[96];
	s->doing = NOTHING;
	s->call = NULL;
	s->own.left = s->own.left || doing == REVOKE;
	snprintf(why, sizeof(why), "HTTP status %ld%s", a->status,
		 json_is_object(answer) ? "" : ", and no JSON of etcd's v3 gateway");
	if (a->error || a->status >= 500 || !json_is_object(answer)) {
		if (a->error || words[0])
			endpoint_fail(s, a->error ? a->error : words);
		else
			endpoint_fail(s, why);
	} else {
		s->failed = 0;
		if (a->status == 401 || etcd_error_is_auth(words))
			token_lost(s, doing, words);
		else if (a->status != 200 || words[0])
			refused(s, doing, words[0] ? words : why);
		else
			answer_take(s, doing, answer);
	}
	json_decref(answer);
}

/* Takes text. */
static struct web_call *call(struct source *s, const char *path, char *text, bool watch)
{
	char url[URL_MAX + 64], header[TOKEN_MAX + 32];
	struct web_request r = {.url = url,
				.body = text,
				.ca = s->setup.ca_file,
				.cert = s->setup.cert_file,
				.key = s->setup.key_file,
				.limit_ns = limit_ns(s),
				.on_done = watch ? on_watch_done : on_answer,
				.on_line = watch ? on_watch_line : NULL,
				.silence_ns = SILENCE_NS / s->setup.pace,
				.arg = s};
	struct web_call *made;
	snprintf(url, sizeof(url), "%s/v3/%s", s->url[s->at], path);
	snprintf(header, sizeof(header), "Authorization: %s", s->login.token);
	r.header[0] = s->login.token[0] ? header : NULL;
	made = text ? web_send(s->setup.web, &r) : NULL;
	if (!made) {
		s->retry_ns = kv_now() + SECOND_NS;
		trouble(s, "", "no memory for a call");
	}
	if (text)
		explicit_bzero(text, strlen(text));
	explicit_bzero(header, sizeof(header));
	free(text);
	return made;
}

static void ask(struct source *s, enum doing doing, const char *path, char *text)
{
	s->sent_ns = kv_now();
	s->call = call(s, path, text, false);
	s->doing = s->call ? doing : NOTHING;
}

static void auth_ask(struct source *s)
{
	char password[1024];
	struct kv_error err = {0};
	if (text_file_line(s->setup.password_file, password, sizeof(password), &err) == 0 && !text_utf8(password))
		kv_fail(&err, -KV_EINVAL, "%s is not in UTF-8, which etcd requires", s->setup.password_file);
	if (err.text[0]) {
		trouble(s, "--members-password-file", err.text);
		s->login.retry_ns = kv_now() + REFUSED_NS / s->setup.pace;
		return;
	}
	ask(s, AUTH, "auth/authenticate", etcd_auth_text(s->setup.user, password));
	explicit_bzero(password, sizeof(password));
}

static void put_ask(struct source *s)
{
	s->own.put_stale = false;
	ask(s, PUT, "kv/put", etcd_put_text(s->prefix, &s->own.self, s->own.lease));
}

/* When to renew the lease; KV_NEVER: no lease. */
static uint64_t renewal_ns(const struct source *s)
{
	return s->own.lease[0] ? s->own.keepalive_ns : KV_NEVER;
}

static bool register_turn(struct source *s, uint64_t now)
{
	if (now < s->own.retry_ns)
		return false;
	if (!s->own.lease[0])
		ask(s, GRANT, "lease/grant", etcd_grant_text(s->setup.lease_ns / SECOND_NS));
	else if (!s->own.put_done)
		put_ask(s);
	else
		return false;
	return true;
}

static void read_turn(struct source *s, uint64_t now)
{
	if (now < s->read.retry_ns)
		return;
	if (s->read.mark_wanted)
		ask(s, MARK, "kv/txn", etcd_mark_text(s->prefix, s->read.mark_new));
	else if (!s->read.listed || now >= s->read.reread_ns)
		ask(s, RANGE, "kv/range", etcd_range_text(s->prefix));
	else if (!s->watch) {
		s->read.watch_ns = now;
		s->watch = call(s, "watch", etcd_watch_text(s->prefix, s->read.revision + 1), true);
	}
}

static void etcd_announce(struct source *s, enum kv_member_state state)
{
	s->own.self.state = state;
	s->own.put_done = false;
	s->own.put_stale = true;
}

static void etcd_weigh(struct source *s, uint32_t weight)
{
	s->own.self.weight = weight;
	etcd_announce(s, s->own.self.state);
}

static uint64_t next_turn(const struct source *s, uint64_t now)
{
	uint64_t next = s->read.listed ? s->read.reread_ns : s->read.retry_ns;
	if (now < s->login.retry_ns)
		return KV_MIN(s->login.retry_ns, renewal_ns(s));
	next = KV_MIN(next, s->watch ? next : s->read.retry_ns);
	next = KV_MIN(next, KV_MIN(renewal_ns(s), s->own.put_done ? KV_NEVER : s->own.retry_ns));
	return s->own.self.state == KV_MEMBER_JOINING ? KV_MIN(next, s->own.up_ns) : next;
}

static uint64_t etcd_turn(struct source *s, uint64_t now)
{
	if (s->call)
		return KV_NEVER; /* web.c watches its limit */
	if (s->own.self.state == KV_MEMBER_JOINING && now >= s->own.up_ns)
		etcd_announce(s, KV_MEMBER_UP);
	if (now < s->retry_ns)
		return s->retry_ns;
	if (now >= renewal_ns(s))
		ask(s, KEEPALIVE, "lease/keepalive", etcd_lease_text(s->own.lease));
	else if (now < s->login.retry_ns)
		;
	else if (s->setup.user && !s->login.token[0] && !s->login.off)
		auth_ask(s);
	else if (!register_turn(s, now))
		read_turn(s, now);
	return s->call ? KV_NEVER : KV_MAX(KV_MAX(next_turn(s, now), s->retry_ns), now + 1000000);
}

static bool etcd_leave(struct source *s)
{
	if (s->own.left || !s->own.lease[0])
		return true;
	if (s->doing == REVOKE)
		return false;
	web_cancel(&s->call);
	ask(s, REVOKE, "lease/revoke", etcd_lease_text(s->own.lease));
	return s->call == NULL;
}

const struct source_class source_etcd = {
	.name = "etcd",
	.check = etcd_check,
	.open = etcd_open,
	.turn = etcd_turn,
	.announce = etcd_announce,
	.weigh = etcd_weigh,
	.leave = etcd_leave,
	.close = etcd_close,
	.registers = true,
	.asks_http = true,
};
