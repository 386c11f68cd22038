/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_members.c -- what etcd, an API server and a list of members may say: whatever it is, a source goes on, and what
 * it tells is a view. The calls of web.h are ours here: each line of the input answers the oldest call, with the status
 * or the kind that its first letter names. */
#include <stdlib.h>
#include <string.h>

#include "kvserver/member/source.h"
#include "kvserver/member/web.h"

enum { CALLS = 4 };

/* Pauses are over then, and a lease of 10 s need not be renewed. */
#define LATER_NS 4000000000ull

struct web_call {
	struct web_request r;
	bool used;
};

static struct web_call calls[CALLS];
static unsigned turn_of;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct web *web_open(void)
{
	return NULL;
}

struct web_call *web_send(struct web *w, const struct web_request *r)
{
	(void)w;
	for (unsigned i = 0; i < CALLS; i++)
		if (!calls[i].used) {
			calls[i] = (struct web_call){.r = *r, .used = true};
			return &calls[i];
		}
	abort(); /* a source has a call and a watch */
}

void web_cancel(struct web_call **call)
{
	if (*call)
		(*call)->used = false;
	*call = NULL;
}

void web_run(struct web *w, uint64_t wait_ns)
{
	(void)w;
	(void)wait_ns;
}

void web_wake(struct web *w)
{
	(void)w;
}

void web_close(struct web **w)
{
	(void)w;
}

static void on_members(void *arg, const struct kv_view *v)
{
	struct kv_view copy = {0};
	(void)arg;
	for (uint32_t i = 0; i < v->count; i++)
		if (kv_view_add(&copy, &v->member[i]))
			abort();
	if (!kv_view_same(&copy, v))
		abort(); /* not sorted */
	kv_view_fini(&copy);
}

static void on_alive(void *arg)
{
	(void)arg;
}

static void on_trouble(void *arg, const char *why)
{
	(void)arg;
	if (!why)
		abort();
}

static const struct source_sink sink = {.members = on_members, .alive = on_alive, .trouble = on_trouble};

/* One answer: its kind, then what it says. */
static void answer(const char *text, size_t len)
{
	static const long statuses[] = {200, 400, 401, 403, 404, 410, 503, 0};
	struct web_call *c = NULL;
	char kind = len ? *text : 'a';
	char *body = strndup(text + (len != 0), len ? len - 1 : 0);
	struct web_answer a = {.status = statuses[(unsigned char)kind % KV_COUNT(statuses)], .body = body};
	for (unsigned i = 0; i < CALLS && !c; i++)
		if (calls[(turn_of + i) % CALLS].used)
			c = &calls[(turn_of + i) % CALLS];
	turn_of++;
	if (c && body) {
		void *arg = c->r.arg;
		a.len = strlen(body);
		if (c->r.on_line && kind < 'z') {
			c->r.on_line(arg, body, a.len);
		} else {
			c->used = false;
			a.error = kind == 'Z' ? "broken" : NULL;
			c->r.on_done(arg, &a);
		}
	}
	free(body);
}

static void feed(const struct source_class *class, const struct source_setup *setup, const char *text, size_t size)
{
	struct source *s;
	const char *end = text + size;
	memset(calls, 0, sizeof(calls));
	turn_of = 0;
	if (class->check(setup, NULL) || class->open(setup, &s))
		abort();
	while (text < end) {
		const char *line = memchr(text, '\n', (size_t)(end - text));
		size_t len = (size_t)((line ? line : end) - text);
		uint64_t later = kv_clock_now(&kv_clock_monotonic) + LATER_NS;
		class->turn(s, later);
		class->turn(s, later);
		answer(text, len);
		text += len + 1;
	}
	class->close(&s);
	for (unsigned i = 0; i < CALLS; i++)
		if (calls[i].used)
			abort(); /* it would call a source that is closed */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* "user" and "token": the first line of a file that every process has. */
	struct source_setup setup = {.self = {.node_id = "n", .address = "h:1", .weight = 1, .state = KV_MEMBER_UP},
				     .lease_ns = 10000000000ull,
				     .pace = 1,
				     .sink = &sink};
	char *text = strndup((const char *)data, size);
	struct kv_member m;
	if (!text)
		return 0;
	setup.spec = "http://e:1/kv";
	feed(&source_etcd, &setup, (const char *)data, size);
	setup.user = "u";
	setup.password_file = "/proc/self/comm";
	feed(&source_etcd, &setup, (const char *)data, size);
	setenv("KUBERNETES_SERVICE_HOST", "h", 0);
	setenv("KUBERNETES_SERVICE_PORT", "1", 0);
	setup.spec = "prod/kv";
	setup.token_file = "/proc/self/comm";
	feed(&source_kube, &setup, (const char *)data, size);
	setup.spec = text;
	if (source_list.check(&setup, NULL) == 0)
		feed(&source_list, &setup, (const char *)data, size);
	if (member_parse(text, &m, NULL) == 0 && kv_member_check(&m, NULL))
		abort();
	free(text);
	return 0;
}
