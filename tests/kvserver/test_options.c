/* SPDX-License-Identifier: Apache-2.0 */
/* test_options.c -- kv-server's command line: defaults, what is refused, and the key from a descriptor. */
#include "tests/check.h"

#include <unistd.h>

#include "store/evict_policies.h"
#include "kvserver/options.h"

static struct flags f;
static struct kv_error err;

static int parse(int argc, const char **argv)
{
	memset(&f, 0, sizeof(f));
	memset(&err, 0, sizeof(err));
	return flags_parse(argc, (char **)(uintptr_t)argv, &f, &err);
}

#define PARSE(...)                                                                                                     \
	parse((int)KV_COUNT(((const char *[]){"kv-server", __VA_ARGS__})),                                             \
	      (const char *[]){"kv-server", __VA_ARGS__, NULL})

static void defaults_are_those_documented(void **state)
{
	(void)state;
	struct kvs_options o;
	const char *argv[] = {"kv-server", NULL};
	assert_int_equal(parse(1, argv), 0);
	flags_options(&f, NULL, NULL, &o);
	assert_string_equal(o.listen_addr, "127.0.0.1:7411");
	assert_int_equal(o.memory_bytes, 1024ull << 20);
	assert_int_equal(o.shards, 0);
	assert_int_equal(o.rails, 0); /* the engine decides */
	assert_int_equal(o.max_clients, KVS_CLIENTS_DEFAULT);
	assert_int_equal(o.credits, KVS_CREDITS_DEFAULT);
	assert_int_equal(o.heartbeat_ms, KVS_HEARTBEAT_MS_DEFAULT);
	assert_int_equal(o.value_max, KV_VALUE_MAX);
	assert_int_equal(o.chunk_bytes, KV_CHUNK_DEFAULT);
	assert_int_equal(o.ttl_ns, 0);
	assert_false(f.http_insecure || o.insecure || o.allow_pull || o.pull_where_safe || f.allow_drain);
	assert_true(o.lease_ns == 1000000000ull);
	assert_false(o.arena_private || o.local_off);
	assert_null(o.local_socket);
}

static void a_server_may_share_less(void **state)
{
	struct kvs_options o;
	(void)state;
	assert_int_equal(PARSE("--arena", "private", "--local", "off"), 0);
	flags_options(&f, NULL, NULL, &o);
	assert_true(o.arena_private && o.local_off);
	assert_int_equal(PARSE("--arena", "shared", "--local", "on", "--local-socket", "/run/kv.sock"), 0);
	flags_options(&f, NULL, NULL, &o);
	assert_false(o.arena_private || o.local_off);
	assert_string_equal(o.local_socket, "/run/kv.sock");
	assert_int_equal(PARSE("--local-socket", "@kv", "--local", "off"), -KV_EINVAL);
	check_contains(err.text, "--local off");
	assert_int_equal(PARSE("--local-socket", "@kv", "--arena", "private"), -KV_EINVAL);
	assert_int_equal(PARSE("--arena", "both"), -KV_EINVAL);
}

/* An option without effect in its company is a mistake; its default is none. */
static void options_that_need_others_are_refused_alone(void **state)
{
	static const struct {
		const char *option, *value, *def, *with, *with_value, *part;
	} of[] = {
		{"--recover", "verify", "empty", "--keep", "/k", "--recover goes with --keep"},
		{"--handover", NULL, NULL, "--keep", "/k", "--handover goes with --keep"},
		{"--arena-file", "/dev/shm/a", NULL, "--keep", "/k", "--arena-file goes with --keep"},
		{"--tier-admit", "put", "eviction", "--tier", "/t:1G", "--tier-admit goes with --tier"},
		{"--tier-rate", "1M", "0", "--tier", "/t:1G", "--tier-rate goes with --tier"},
		{"--tier-day", "1G", "0", "--tier", "/t:1G", "--tier-day goes with --tier"},
		{"--tier-segment", "4M", "64M", "--tier", "/t:1G", "--tier-segment goes with --tier"},
		{"--lease-ms", "20", "1000", "--pull-where-safe", NULL, "--lease-ms goes with --allow-pull"},
		{"--http-insecure", NULL, NULL, "--http-addr", "127.0.0.1:0", "--http-insecure goes with --http-addr"},
		{"--drain-mb", "1", "1024", "--members", "list:a=h:1", "--drain-mb goes with --members"},
	};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(of); i++) {
		const char *argv[6] = {"kv-server", of[i].option};
		int argc = 2;
		if (of[i].value)
			argv[argc++] = of[i].value;
		assert_int_equal(parse(argc, argv), -KV_EINVAL);
		check_contains(err.text, of[i].part);
		if (of[i].def) {
			argv[2] = of[i].def;
			assert_int_equal(parse(3, argv), 0);
			argv[2] = of[i].value;
		}
		argv[argc++] = of[i].with;
		if (of[i].with_value)
			argv[argc++] = of[i].with_value;
		if (parse(argc, argv))
			fail_msg("%s with %s: %s", of[i].option, of[i].with, err.text);
	}
}

static void every_flag_reaches_the_options(void **state)
{
	(void)state;
	struct kvs_options o;
	assert_int_equal(PARSE("--listen-addr", "[::1]:7", "--memory-mb", "64", "--node-id", "n1", "--num-domains", "2",
			       "--worker-threads", "3", "--provider", "tcp", "--nic", "lo", "--max-clients", "9",
			       "--max-sessions", "4", "--session-keys", "/k", "--ttl", "5m", "--psk-file", "/p",
			       "--insecure", "--allow-drain", "--heartbeat-ms", "100", "--ready-fd", "2",
			       "--die-with-parent", "--spin-us", "0", "--prefault", "start", "--value-max", "1M",
			       "--max-values", "12345", "--eviction", "lru", "--chunk", "64K", "--credits", "16",
			       "--slow-ms", "20", "--allow-pull", "--pull-where-safe", "--lease-ms", "250",
			       "--drain-sec", "3", "--cluster", "prod", "--http-addr", "127.0.0.1:0",
			       "--http-insecure"),
			 0);
	flags_options(&f, "id:00", NULL, &o);
	assert_string_equal(o.listen_addr, "[::1]:7");
	assert_string_equal(o.node_id, "n1");
	assert_string_equal(o.cluster, "prod");
	assert_true(f.http_insecure);
	assert_string_equal(o.provider, "tcp");
	assert_string_equal(o.nic, "lo");
	assert_string_equal(o.psk_file, "/p");
	assert_string_equal(o.psk, "id:00");
	assert_int_equal(o.memory_bytes, 64 << 20);
	assert_int_equal(o.rails, 2);
	assert_int_equal(o.shards, 3);
	assert_int_equal(o.max_clients, 9);
	assert_int_equal(o.max_sessions, 4);
	assert_string_equal(o.session_keys, "/k");
	assert_int_equal(f.drain_sec, 3);
	assert_true(f.allow_drain);
	assert_true(o.ttl_ns == 300000000000ull);
	assert_true(o.insecure && o.allow_pull && o.pull_where_safe && o.prefault == KVS_PREFAULT_START &&
		    f.die_with_parent);
	assert_true(o.lease_ns == 250000000ull);
	assert_int_equal(o.heartbeat_ms, 100);
	assert_int_equal(f.ready_fd, 2);
	assert_int_equal(o.spin_ns, 0);
	assert_int_equal(o.value_max, 1 << 20);
	assert_int_equal(o.values_max, 12345);
	assert_int_equal(o.eviction, 2);
	assert_int_equal(o.chunk_bytes, 65536);
	assert_int_equal(o.credits, 16);
	assert_int_equal(o.slow_ns, 20000000);
}

static void times_and_sizes_may_have_units(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--memory-mb", "2GiB", "--slow-ms", "1m", "--heartbeat-ms", "0.5s", "--lease-ms", "2s",
			       "--pull-where-safe", "--spin-us", "1ms", "--ttl", "90s"),
			 0);
	assert_int_equal(f.memory_mb, 2048);
	assert_int_equal(f.slow_ms, 60000);
	assert_int_equal(f.server.heartbeat_ms, 500);
	assert_int_equal(f.lease_ms, 2000);
	assert_int_equal(f.spin_us, 1000);
	assert_true(f.server.ttl_ns == 90000000000ull);
}

/* What stands beside it would be ignored: a server that was meant to start, or a name that was meant to be taken. */
static void make_psk_stands_alone(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--make-psk", "f"), 0);
	assert_string_equal(f.make_psk, "f");
	assert_int_equal(PARSE("--make-psk=f"), 0);
	assert_int_equal(PARSE("--make-psk=f", "--identity", "acme"), 0);
	assert_string_equal(f.identity, "acme");
	assert_int_equal(PARSE("--make-psk=f", "--insecure"), -KV_EINVAL);
	assert_int_equal(PARSE("--make-psk=f", "--identity=a#b"), -KV_EINVAL);
	assert_int_equal(PARSE("--identity", "acme"), -KV_EINVAL);
	assert_int_equal(PARSE("--make-psk", "f", "--listen-addr", "127.0.0.1:1"), -KV_EINVAL);
	assert_non_null(strstr(err.text, "--make-psk FILE only makes a key"));
	assert_int_equal(PARSE("--insecure", "--make-psk=f"), -KV_EINVAL);
	assert_int_equal(PARSE("--make-psk=f", "--prefault=off"), -KV_EINVAL);
	assert_int_equal(PARSE("--make-psk", "f", "--make-psk", "g"), -KV_EINVAL);
	assert_int_equal(PARSE("--make-psk", ""), -KV_EINVAL);
}

static void nonsense_is_refused_by_name(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--memory-mb", "0"), -KV_EINVAL);
	assert_non_null(strstr(err.text, "memory-mb"));
	assert_int_equal(PARSE("--eviction", "fifo"), -KV_EINVAL);
	assert_non_null(strstr(err.text, "sieve"));
	assert_int_equal(PARSE("--log-level", "loud"), -KV_EINVAL);
	assert_non_null(strstr(err.text, "loud"));
	assert_int_equal(PARSE("--psk-file", "x", "--psk-fd", "5"), -KV_EINVAL);
	assert_int_equal(PARSE("--no-such-flag"), -KV_EINVAL);
	assert_int_equal(PARSE("--cert", "c", "--key", "k"), -KV_EINVAL);
	assert_int_equal(PARSE("--cert", "c", "--key", "k", "--ca", "a", "--psk-file", "p"), -KV_EINVAL);
	assert_int_equal(PARSE("--crl", "r"), -KV_EINVAL);
	assert_int_equal(PARSE("--cert", "c", "--key", "k", "--ca", "a", "--crl", "r"), 0);
	assert_int_equal(PARSE("--node-id", ""), -KV_EINVAL);
	assert_int_equal(PARSE("--listen-addr", ":99"), -KV_EINVAL);
	assert_int_equal(PARSE("--memory-mb", "3", "--worker-threads", "4"), -KV_EINVAL);
	assert_int_equal(PARSE("--ready-fd", "9999"), -KV_EINVAL);
	assert_non_null(strstr(err.text, "9999"));
	assert_int_equal(PARSE("--ready-fd", "0"), -KV_EINVAL); /* 0 says that there is none: it would be ignored */
	assert_int_equal(PARSE("--psk-fd", "0"), -KV_EINVAL);
}

static void policies_and_their_names_go_together(void **state)
{
	(void)state;
	unsigned i = 0;
	for (; evict_policies[i]; i++)
		assert_string_equal(evict_policies[i]->name, evict_policy_names[i]);
	assert_null(evict_policy_names[i]);
}

static int psk_from(const char *text, size_t len, char *buf, size_t cap)
{
	int fd[2];
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(write(fd[1], text, len), len);
	close(fd[1]);
	return flags_psk_read(fd[0], buf, cap, &err);
}

static void a_key_line_is_read_from_a_descriptor(void **state)
{
	(void)state;
	char buf[64];
	assert_int_equal(psk_from("id:0011\nrest", 12, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "id:0011");
	assert_int_equal(psk_from("id:22", 5, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "id:22");
	assert_int_equal(psk_from("", 0, buf, sizeof(buf)), -KV_EINVAL);
	assert_true(flags_psk_read(9999, buf, sizeof(buf), &err) < 0);
}

/* config_write -- a file for --config; returns its path. */
static const char *config_write(const char *text)
{
	static char path[64];
	FILE *file;
	snprintf(path, sizeof(path), "/tmp/kvrail-test-%d.config", (int)getpid());
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	return path;
}

static void the_command_line_wins_over_the_file(void **state)
{
	(void)state;
	const char *path = config_write("memory-mb = 64\nslow-ms = 9\nnode-id = n7\ninsecure\n");
	assert_int_equal(PARSE("--slow-ms", "3", "--config", path), 0);
	assert_int_equal(f.memory_mb, 64);
	assert_int_equal(f.slow_ms, 3);
	assert_string_equal(f.server.node_id, "n7");
	assert_true(f.server.insecure);
	assert_int_equal(f.server.max_clients, 256); /* what neither names */
	unlink(path);
	assert_int_equal(PARSE("--config", path), -KV_EINVAL);
	check_contains(err.text, path);
}

static void a_file_may_not_say_everything(void **state)
{
	(void)state;
	static const char *const lines[] = {"config = other", "make-psk = k", "psk = a:00", "memory-mb = 0",
					    "memory-mb = 2\nworker-threads = 9"};
	for (size_t i = 0; i < KV_COUNT(lines); i++) {
		const char *path = config_write(lines[i]);
		assert_int_equal(PARSE("--config", path), -KV_EINVAL);
		unlink(path);
	}
}

static void a_reload_takes_what_it_can(void **state)
{
	(void)state;
	const char *path = config_write("memory-mb = 64\nlog-level = warn\n");
	const char *argv[] = {"kv-server", "--ttl",      "7s",       "--ready-fd", "2",
			      "--members", "list:a=h:1", "--config", path,         NULL};
	char taken[512], left[512];
	assert_int_equal(parse(9, argv), 0);
	assert_int_equal(flags_reload(9, (char **)(uintptr_t)argv, &f, taken, left, sizeof(taken), &err), 0);
	assert_string_equal(taken, "");
	assert_string_equal(left, "");
	config_write("memory-mb = 65\nlog-level = debug\nslow-ms = 5\nttl = 9s\ndrain-sec = 2\ndrain-mb = 7\n");
	assert_int_equal(flags_reload(9, (char **)(uintptr_t)argv, &f, taken, left, sizeof(taken), &err), 0);
	assert_string_equal(
		taken, "slow-ms = 5, log-level = debug, drain-sec = 2, drain-mb = 7"); /* --ttl: the command line */
	assert_string_equal(left, "memory-mb");
	assert_string_equal(f.log_level, "debug");
	assert_int_equal(f.memory_mb, 64);
	assert_int_equal(f.drain_sec, 2);
	config_write("drain-sec = 3\nnonsense = 4\n");
	assert_int_equal(flags_reload(9, (char **)(uintptr_t)argv, &f, taken, left, sizeof(taken), &err), -KV_EINVAL);
	assert_int_equal(f.drain_sec, 2);
	unlink(path);
	assert_true(flags_reload(9, (char **)(uintptr_t)argv, &f, taken, left, sizeof(taken), &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_documented),
		cmocka_unit_test(options_that_need_others_are_refused_alone),
		cmocka_unit_test(every_flag_reaches_the_options),
		cmocka_unit_test(a_server_may_share_less),
		cmocka_unit_test(times_and_sizes_may_have_units),
		cmocka_unit_test(nonsense_is_refused_by_name),
		cmocka_unit_test(make_psk_stands_alone),
		cmocka_unit_test(policies_and_their_names_go_together),
		cmocka_unit_test(a_key_line_is_read_from_a_descriptor),
		cmocka_unit_test(the_command_line_wins_over_the_file),
		cmocka_unit_test(a_file_may_not_say_everything),
		cmocka_unit_test(a_reload_takes_what_it_can),
	};
	return cmocka_run_group_tests_name("kvserver/options", tests, NULL, NULL);
}
