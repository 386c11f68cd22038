/* SPDX-License-Identifier: Apache-2.0 */
/* test_pages.c -- the pages of --http-addr: before the server runs, while a data loop is stuck, in a drain. */
#include "tests/check.h"

#include <malloc.h>
#include <semaphore.h>
#include <string.h>

#include "kvserver/server/server.h"
#include "kvserver/http/pages.h"
#include "kvserver/member/membership.h"

static const struct kv_log sink = {.level = KV_LOG_OFF, .write = kv_log_stderr};
static struct kvs_server *server;

static int up(void **state)
{
	(void)state;
	const struct kvs_options o = {.listen_addr = "127.0.0.1:0",
				      .shards = 2,
				      .memory_bytes = 16 << 20,
				      .node_id = "n-1",
				      .publish = true,
				      .provider = test_provider(),
				      .log = &sink};
	return kvs_server_create(&o, &server, NULL) || kvs_server_start(server, NULL);
}

static int down(void **state)
{
	(void)state;
	kvs_server_destroy(&server);
	return 0;
}

/* page_is -- the status of a page, which contains this. */
static void page_is(const struct page_source *from, const char *path, unsigned status, const char *part)
{
	struct page page;
	page_make(from, path, &page);
	assert_int_equal(page.status, status);
	assert_non_null(page.body);
	assert_int_equal(page.len, strlen(page.body));
	check_contains(page.body, part);
	free(page.body);
}

static struct page_source source(void)
{
	struct page_source from = {0};
	page_source_serve(&from, server);
	return from;
}

static void before_it_runs_it_lives_and_is_not_ready(void **state)
{
	(void)state;
	const struct page_source from = {0};
	page_is(&from, "/healthz", 200, "ok");
	page_is(&from, "/readyz", 503, "starting");
	page_is(&from, "/metrics", 200, "kvrail_ready 0\n");
	page_is(&from, "/stat", 200, "{\"servers\":[]}");
	page_is(&from, "/view", 200, "{\"members\":[]}");
	page_is(&from, "/", 404, "/metrics");
}

static void a_server_shows_all_it_counts_at_once(void **state)
{
	(void)state;
	const struct page_source from = source();
	page_is(&from, "/readyz", 200, "ok");
	page_is(&from, "/view", 200, "\"node_id\":\"n-1\"");
	page_is(&from, "/stat", 200, "\"bytes_limit\":16777216");
	page_is(&from, "/metrics", 200, "kvrail_memory_bytes{state=\"free\"} 16777216\n");
	page_is(&from, "/metrics", 200, "kvrail_rail_up{shard=\"1\",rail=\"0\",nic=");
	page_is(&from, "/metrics", 200, "kvrail_serve_seconds_bucket{le=\"+Inf\"} 0\n");
}

/* As memcpy. The control thread answers a pulse meanwhile, in a part that no page reads. */
__attribute__((noinline, no_sanitize("thread"))) static void copy_untold(void *to, const volatile uint8_t *from,
									 size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)to)[i] = from[i];
}

/* A page that read a shard, or the server's lists of them, would meet the address 1. */
static void a_scrape_reads_no_shard(void **state)
{
	(void)state;
	static struct kvs_server stripped;
	struct page_source from = source();
	copy_untold(&stripped, (const volatile uint8_t *)server, sizeof(stripped));
	for (unsigned i = 0; i < KV_SHARDS_MAX; i++)
		stripped.shard[i] = (struct shard *)1;
	from.server = &stripped;
	page_is(&from, "/metrics", 200, "kvrail_evicted_returned_quarter_total 0\n");
	page_is(&from, "/metrics", 200, "kvrail_hot_gets_total 0\n");
	page_is(&from, "/metrics", 200, "kvrail_uptime_seconds ");
	page_is(&from, "/stat", 200, "\"version\":");
	page_is(&from, "/view", 200, "\"node_id\":\"n-1\"");
}

/* So that no copy shares a line, or the line that a processor fetches with it, with what a shard writes to. */
static void what_is_published_has_lines_of_its_own(void **state)
{
	(void)state;
	struct published *p;
	assert_int_equal(published_make(&p), 0);
	assert_int_equal((uintptr_t)p % KV_LINES, 0);
	assert_in_range(malloc_usable_size(p), kv_align_up(sizeof(*p), KV_LINES), SIZE_MAX);
	free(p);
}

/* It is ready with the first view, and says until then why there is none. */
static void a_member_is_ready_with_its_first_view(void **state)
{
	(void)state;
	struct membership_now now = {.source = "etcd",
				     .state = SOURCE_UNREACHABLE,
				     .trouble = "http://e1: no leader",
				     .silence_ns = KV_NEVER};
	struct page_source from = source();
	from.cluster = &now;
	page_is(&from, "/readyz", 503, "no view was saved: http://e1: no leader\n");
	page_is(&from, "/healthz", 200, "ok");
	page_is(&from, "/metrics", 200, "kvrail_ready 0\n");
	page_is(&from, "/metrics", 200, "kvrail_view_epoch 0\n");
	now.ready = now.saved = true; /* with a view that was saved */
	page_is(&from, "/readyz", 200, "ok");
	page_is(&from, "/metrics", 200, "kvrail_ready 1\n");
	page_is(&from, "/metrics", 200, "kvrail_view_saved 1\n");
	page_is(&from, "/view", 200, "\"saved\":true");
}

static void missing_security_is_shown(void **state)
{
	(void)state;
	struct page_source from = source();
	page_is(&from, "/metrics", 200, "security=\"none\"");
	page_is(&from, "/metrics", 200, "kvrail_open_to_anyone 0\n"); /* it listens on loopback */
	from.info.open_to_anyone = true;
	page_is(&from, "/metrics", 200, "kvrail_open_to_anyone 1\n");
}

static void a_drain_is_told(void **state)
{
	(void)state;
	struct page_source from = source();
	from.draining = true;
	page_is(&from, "/healthz", 200, "ok");
	page_is(&from, "/readyz", 503, "draining");
	page_is(&from, "/metrics", 200, "kvrail_ready 0\n");
	page_is(&from, "/view", 200, "\"state\":\"draining\"");
}

static sem_t stuck, go;

static void spaces_begin_here(void *arg)
{
	struct shard *s = arg;
	for (unsigned i = 0; i < 40; i++) {
		struct space *sp;
		char name[16];
		snprintf(name, sizeof(name), "ns-%u", s == server->shard[0] ? i : 39 - i);
		assert_int_equal(space_take(&s->store.spaces, name, 1, &sp), 0);
		sp->gets = 3;
	}
	s->counts.of[WIRE_STAT_GETS] = 40 * 3;
	shard_publish(s);
	sem_post(&go);
}

/* The tables of two shards differ. The numbers of each page add up to those of the server. */
static void many_namespaces_have_few_lines(void **state)
{
	(void)state;
	const struct page_source from = source();
	unsigned lines = 0;
	struct page page;
	sem_init(&go, 0, 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(loop_post(server->shard_loop[i], spaces_begin_here, server->shard[i]), 0);
		sem_wait(&go);
	}
	page_is(&from, "/metrics", 200, "kvrail_namespace_blocks{namespace=\"\"} 0\n");
	page_is(&from, "/metrics", 200, "kvrail_namespace_gets_total{namespace=\"ns-0\"} 3\n");
	page_is(&from, "/metrics", 200, "kvrail_namespace_gets_total{namespace=\"ns-20\"} 6\n");
	page_is(&from, "/metrics", 200, "kvrail_namespace_gets_total{namespace=\"other\",rest=\"true\"} 81\n");
	page_make(&from, "/metrics", &page);
	for (const char *at = page.body; (at = strstr(at, "kvrail_namespace_gets_total{")) != NULL; at++)
		lines++;
	assert_int_equal(lines, 33);
	free(page.body);
}

enum { TENANTS = 40 };

static const char *no_owner(void *arg, const char *space)
{
	(void)arg;
	(void)space;
	return NULL;
}

static void tenants_begin_here(void *arg)
{
	const struct tenant_part no_limit = {0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
	struct shard *s = arg;
	tenancy_begin(&s->store, no_owner, NULL);
	for (unsigned i = 0; i < TENANTS; i++) {
		struct tenant *t;
		char name[16];
		snprintf(name, sizeof(name), "t-%u", i);
		assert_int_equal(tenant_set(&s->store, name, &no_limit), 0);
		t = tenant_find(&s->store, name);
		t->read_bytes = 1000 + i;
		t->denied = 2;
		tenant_keep(&s->store.tenancy, t, KEPT_PINS, 64);
		t->tier_bytes = 5;
		t->active = 1;
	}
	s->counts.of[WIRE_STAT_BYTES_READ] = 100000;
	shard_publish(s);
	sem_post(&go);
}

static void tenants_end_here(void *arg)
{
	struct shard *s = arg;
	for (unsigned i = 1; i <= TENANTS; i++) {
		struct tenant *t = s->store.tenancy.at[i];
		tenant_release(&s->store.tenancy, t, KEPT_PINS, 64);
		t->tier_bytes = t->active = 0;
	}
	sem_post(&go);
}

/* The first 32 tenants have lines, and the rest has one where all are known. */
static void tenants_have_their_figures(void **state)
{
	static char table[16384] = "{\"tenants\": [";
	(void)state;
	const struct page_source from = source();
	struct tenant_places *first;
	struct tenants *t = NULL;
	struct kv_error err;
	for (unsigned i = 0; i < TENANTS; i++)
		snprintf(table + strlen(table), sizeof(table) - strlen(table),
			 "%s{\"name\": \"t-%u\", \"identities\": [\"i-%u\"], \"namespaces\": {}}", i ? "," : "", i, i);
	strcat(table, "]}");
	assert_int_equal(tenants_parse(table, strlen(table), "t.json", &t, &err), 0);
	assert_int_equal(places_follow(&server->places, t), 0);
	tenants_unref(&t);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(loop_post(server->shard_loop[i], tenants_begin_here, server->shard[i]), 0);
		sem_wait(&go);
	}
	first = places_find(&server->places, "t-0");
	places_take(first, PLACE_SESSION);
	places_take(places_find(&server->places, "t-39"), PLACE_SESSION);
	first->refused = 7;
	page_is(&from, "/metrics", 200, "kvrail_tenant_read_bytes_total{tenant=\"t-1\"} 2002\n");
	page_is(&from, "/metrics", 200, "kvrail_tenant_read_bytes_total{tenant=\"other\",rest=\"true\"} 135008\n");
	page_is(&from, "/metrics", 200, "kvrail_tenant_pinned_bytes{tenant=\"t-31\"} 128\n");
	page_is(&from, "/metrics", 200, "kvrail_tenant_tier_bytes{tenant=\"t-0\"} 10\n");
	page_is(&from, "/metrics", 200, "kvrail_tenant_requests{tenant=\"t-0\"} 2\n");
	page_is(&from, "/metrics", 200, "kvrail_tenant_refused_total{tenant=\"t-0\"} 4\n");
	page_is(&from, "/metrics", 200, "kvrail_tenant_sessions{tenant=\"t-0\"} 1\n");
	page_is(&from, "/metrics", 200, "kvrail_tenant_sessions{tenant=\"t-31\"} 0\n");
	page_is(&from, "/metrics", 200, "kvrail_tenant_sessions{tenant=\"other\",rest=\"true\"} 1\n");
	page_is(&from, "/metrics", 200, "kvrail_tenant_sessions_refused_total{tenant=\"t-0\"} 7\n");
	page_is(&from, "/metrics", 200, "kvrail_tenant_sessions_refused_total{tenant=\"other\",rest=\"true\"} 0\n");
	places_give(&server->places, first, PLACE_SESSION);
	places_give(&server->places, places_find(&server->places, "t-39"), PLACE_SESSION);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(loop_post(server->shard_loop[i], tenants_end_here, server->shard[i]), 0);
		sem_wait(&go);
	}
}

static void stand_still(void *arg)
{
	(void)arg;
	sem_post(&stuck);
	sem_wait(&go);
}

/* The loop is asked, and a while passes: the clock of the asking is set back instead of waiting for it. */
static void a_stuck_loop_holds_up_no_page_and_is_told(void **state)
{
	(void)state;
	const struct page_source from = source();
	char loop[64] = "";
	sem_init(&stuck, 0, 0);
	sem_init(&go, 0, 0);
	while (kvs_server_silence_ns(server, loop, sizeof(loop)) > 0)
		sched_yield();
	assert_int_equal(loop_post(server->shard_loop[1], stand_still, NULL), 0);
	sem_wait(&stuck);
	while (kvs_server_silence_ns(server, loop, sizeof(loop)) == 0 || !server->health.asked[2])
		sched_yield();
	while (server->health.asked[0] || server->health.asked[1]) /* the others answer */
		sched_yield();
	page_is(&from, "/healthz", 200, "ok");
	server->health.asked_ns[2] -= 6000000000ull;
	page_is(&from, "/healthz", 503, "worker thread 1 has not answered for 6.");
	page_is(&from, "/readyz", 503, "worker thread 1");
	page_is(&from, "/metrics", 200, "kvrail_blocks{tier=\"memory\"} 0\n");
	page_is(&from, "/stat", 200, "\"sessions\":0");
	sem_post(&go);
	while (kvs_server_silence_ns(server, loop, sizeof(loop)) > 0)
		sched_yield();
	page_is(&from, "/healthz", 200, "ok");
}

static void a_stopped_server_still_has_pages(void **state)
{
	(void)state;
	const struct page_source from = source();
	kvs_server_stop(server, 0);
	page_is(&from, "/healthz", 200, "ok");
	page_is(&from, "/metrics", 200, "kvrail_blocks");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_it_runs_it_lives_and_is_not_ready),
		cmocka_unit_test(a_server_shows_all_it_counts_at_once),
		cmocka_unit_test(a_scrape_reads_no_shard),
		cmocka_unit_test(what_is_published_has_lines_of_its_own),
		cmocka_unit_test(a_member_is_ready_with_its_first_view),
		cmocka_unit_test(missing_security_is_shown),
		cmocka_unit_test(a_drain_is_told),
		cmocka_unit_test(many_namespaces_have_few_lines),
		cmocka_unit_test(tenants_have_their_figures),
		cmocka_unit_test(a_stuck_loop_holds_up_no_page_and_is_told),
		cmocka_unit_test(a_stopped_server_still_has_pages),
	};
	return cmocka_run_group_tests_name("kvserver/pages", tests, up, down);
}
