/* SPDX-License-Identifier: Apache-2.0 */
/* test_saved.c -- the view in --state-dir: what is written is read, and nothing else is. */
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kvserver/member/membership.h"
#include "kvserver/member/saved.h"

#define NOW 1700000000000ull

static char dir[] = "/tmp/kvrail-saved.XXXXXX", path[64];
static struct kv_error err;

static struct kv_view view_of(unsigned n, uint64_t epoch)
{
	struct kv_view v = {.source = 42, .epoch = epoch};
	for (unsigned i = 0; i < n; i++) {
		struct kv_member m = {.weight = 1 + i % 7, .state = KV_MEMBER_UP, .incarnation = i, .zone = "z"};
		snprintf(m.node_id, sizeof(m.node_id), "node-%04u", i);
		snprintf(m.address, sizeof(m.address), "10.0.%u.%u:7411", i / 256, i % 256);
		assert_int_equal(kv_view_add(&v, &m), 0);
	}
	return v;
}

static int read_at(uint64_t now_ms, uint64_t origin, struct kv_view *out, uint64_t *age)
{
	memset(&err, 0, sizeof(err));
	return saved_read(dir, origin, now_ms, out, age, &err);
}

static void a_view_comes_back_as_it_was(void **state)
{
	static const unsigned sizes[] = {1, 3, KV_VIEW_MAX};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(sizes); i++) {
		struct kv_view v = view_of(sizes[i], 7 + i), got;
		struct stat st;
		uint64_t age;
		assert_int_equal(saved_write(dir, 5, NOW, &v, &err), 0);
		assert_int_equal(read_at(NOW + 90000, 5, &got, &age), 0);
		assert_int_equal(age, 90000);
		assert_true(kv_view_same(&v, &got) && got.source == 42 && got.epoch == 7 + i);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
		kv_view_fini(&got);
		assert_int_equal(read_at(NOW - 5, 5, &got, &age), 0); /* the clock was set back */
		assert_int_equal(age, 0);
		kv_view_fini(&got);
		kv_view_fini(&v);
	}
}

static void refused(uint64_t now_ms, uint64_t origin, const char *why)
{
	struct kv_view got;
	uint64_t age;
	assert_int_equal(read_at(now_ms, origin, &got, &age), -KV_EINVAL);
	check_contains(err.text, why);
}

static void old_and_foreign_ones_are_refused(void **state)
{
	struct kv_view v = view_of(3, 7), got;
	uint64_t age;
	(void)state;
	assert_int_equal(saved_write(dir, 5, NOW, &v, &err), 0);
	refused(NOW + SAVED_AGE_MAX_MS + 3600000, 5, "it was saved 25 hours ago");
	refused(NOW, 6, "another --members or --cluster");
	assert_true(saved_origin("etcd:a", "") != saved_origin("etcd:b", ""));
	assert_true(saved_origin("etcd:a", "") != saved_origin("etcd:a", "prod"));
	unlink(path);
	assert_int_equal(read_at(NOW, 5, &got, &age), -KV_ENOTFOUND);
	assert_string_equal(err.text, "");
	v.epoch = UINT64_MAX; /* there were no next one */
	assert_int_equal(saved_write(dir, 5, NOW, &v, &err), 0);
	refused(NOW, 5, "no view has such an epoch");
	kv_view_fini(&v);
}

/* Each byte may be wrong, and the file may end anywhere. */
static void torn_ones_are_refused(void **state)
{
	struct kv_view v = view_of(3, 7);
	uint8_t bytes[4096], bad;
	ssize_t len;
	int fd;
	(void)state;
	assert_int_equal(saved_write(dir, 5, NOW, &v, &err), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	len = read(fd, bytes, sizeof(bytes));
	assert_true(len > 32 && len < (ssize_t)sizeof(bytes));
	for (ssize_t i = 0; i < len; i++) {
		bad = bytes[i] ^ 0x10;
		assert_int_equal(pwrite(fd, &bad, 1, i), 1);
		refused(NOW, 5, "is not used: it is damaged");
		assert_int_equal(pwrite(fd, &bytes[i], 1, i), 1);
	}
	for (ssize_t i = len - 1; i >= 0; i -= 7) {
		assert_int_equal(ftruncate(fd, i), 0);
		refused(NOW, 5, "it is damaged");
	}
	close(fd);
	kv_view_fini(&v);
}

/* The former file stays whole. */
static void a_disk_that_takes_nothing_is_told(void **state)
{
	struct kv_view v = view_of(3, 7), got;
	char fresh[80];
	uint64_t age;
	(void)state;
	assert_int_equal(saved_write(dir, 5, NOW, &v, &err), 0);
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	assert_int_equal(symlink("/dev/full", fresh), 0); /* a planted link is not followed */
	assert_int_equal(saved_write(dir, 5, NOW, &v, &err), -ELOOP);
	check_contains(err.text, "the view cannot be saved in /tmp/kvrail-saved.");
	unlink(fresh);
	for (unsigned read_too = 0; read_too < 2; read_too++) { /* a FIFO is neither waited for nor renamed */
		int fd = -1;
		assert_int_equal(mkfifo(fresh, 0600), 0);
		if (read_too)
			fd = open(fresh, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		alarm(20);
		assert_int_equal(saved_write(dir, 5, NOW + 1, &v, &err), -ENXIO);
		alarm(0);
		if (fd >= 0)
			close(fd);
		unlink(fresh);
	}
	assert_int_equal(mkdir(fresh, 0700), 0);
	assert_true(saved_write(dir, 5, NOW + 1, &v, &err) < 0);
	rmdir(fresh);
	assert_int_equal(read_at(NOW, 5, &got, &age), 0);
	assert_true(saved_write("/nonexistent/folder", 5, NOW, &v, &err) == -ENOENT);
	kv_view_fini(&got);
	kv_view_fini(&v);
}

/* ---- a membership that begins with it ---- */

static _Atomic unsigned views, readies;
static _Atomic uint64_t epoch;
static _Atomic unsigned members;

static int on_view(void *arg, const struct kv_view *view)
{
	(void)arg;
	epoch = view->epoch;
	members = view->count;
	views++;
	return 0;
}

static void on_ready(void *arg)
{
	(void)arg;
	readies++;
}

static void on_line(void *arg, enum kv_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static bool within(const _Atomic unsigned *n, unsigned at_least)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	for (unsigned i = 0; i < 3000 && *n < at_least; i++)
		nanosleep(&pause, NULL);
	return *n >= at_least;
}

static struct membership_options options_of(const char *source)
{
	static const struct kv_log log = {.level = KV_LOG_WARN, .write = on_line};
	return (struct membership_options){.members = source,
					   .self = {.node_id = "node-0000", .address = "10.0.0.0:7411", .weight = 1},
					   .state_dir = dir,
					   .pace = 10,
					   .log = &log,
					   .on_view = on_view,
					   .on_ready = on_ready};
}

/* The file of members is not there: it begins with the view of before, and is ready. Without that it is not. */
static void a_silent_source_is_no_reason_to_forget(void **state)
{
	const char *source = "file:/nonexistent/members";
	const struct membership_options o = options_of(source);
	struct kv_view v = view_of(3, 77);
	struct membership_now now;
	struct membership *m;
	(void)state;
	unlink(path);
	assert_int_equal(membership_start(&o, &m, NULL), 0);
	nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL); /* more than it waits for the source */
	assert_int_equal(readies + views, 0);
	assert_int_equal(membership_read(m, &now), 0);
	assert_true(!now.ready && now.view.epoch == 0);
	membership_stop(&m);
	assert_int_equal(saved_write(dir, saved_origin(source, ""), members_now_ms(), &v, &err), 0);
	assert_int_equal(membership_start(&o, &m, NULL), 0);
	assert_true(within(&readies, 1));
	assert_int_equal(views, 1);
	assert_int_equal(epoch, 77);
	assert_int_equal(members, 3);
	assert_int_equal(membership_read(m, &now), 0);
	assert_true(now.ready && now.saved && now.state == SOURCE_UNREACHABLE);
	kv_view_fini(&now.view);
	membership_stop(&m);
	kv_view_fini(&v);
}

/* A source that answers is believed at once, its view is saved, and the epoch does not go back over a restart. */
static void a_source_that_answers_is_saved(void **state)
{
	const char *source = "list:node-0000=10.0.0.0:7411,b=10.0.0.9:7411";
	const struct membership_options o = options_of(source);
	struct kv_view got;
	struct membership *m;
	uint64_t age, first;
	(void)state;
	unlink(path);
	views = readies = 0;
	assert_int_equal(membership_start(&o, &m, NULL), 0);
	assert_true(within(&readies, 1));
	first = epoch;
	for (unsigned i = 0; i < 3000 && access(path, F_OK) != 0; i++)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	membership_stop(&m);
	assert_int_equal(saved_read(dir, saved_origin(source, ""), members_now_ms(), &got, &age, &err), 0);
	assert_int_equal(got.count, 2);
	assert_int_equal(got.epoch, first);
	got.epoch += 3600000; /* by a clock that was an hour ahead */
	assert_int_equal(saved_write(dir, saved_origin(source, ""), members_now_ms(), &got, &err), 0);
	views = readies = 0;
	assert_int_equal(membership_start(&o, &m, NULL), 0);
	assert_true(within(&readies, 1));
	assert_int_equal(epoch, got.epoch); /* the same members: the same view */
	membership_stop(&m);
	kv_view_fini(&got);
}

static _Atomic int changed_s; /* 0: as it is */

int __real_stat(const char *file, struct stat *st);
int __real_fstat(int fd, struct stat *st);
int __wrap_stat(const char *file, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);

static int changed(int rc, struct stat *st)
{
	if (changed_s)
		st->st_mtim.tv_sec = changed_s;
	return rc;
}

int __wrap_stat(const char *file, struct stat *st)
{
	return changed(__real_stat(file, st), st);
}

int __wrap_fstat(int fd, struct stat *st)
{
	return changed(__real_fstat(fd, st), st);
}

/* A file whose time is before 1970, and then one with another member. */
static void a_file_of_before_1970_has_a_small_epoch(void **state)
{
	static const char *const text[] = {"node-0000=10.0.0.0:7411\n", "node-0000=10.0.0.0:7411\nb=10.0.0.9:7411\n"};
	char file[80], source[96];
	struct membership_options o;
	struct membership *m;
	(void)state;
	snprintf(file, sizeof(file), "%s.list", path);
	snprintf(source, sizeof(source), "file:%s", file);
	o = options_of(source);
	unlink(path);
	views = readies = 0;
	for (unsigned i = 0; i < 2; i++) {
		FILE *f = fopen(file, "w");
		assert_non_null(f);
		fputs(text[i], f);
		fclose(f);
		changed_s = -1000 + (int)i;
		if (i == 0)
			assert_int_equal(membership_start(&o, &m, NULL), 0);
		assert_true(within(&views, i + 1));
		assert_int_equal(members, i + 1);
		assert_int_equal(epoch, i + 1);
	}
	membership_stop(&m);
	changed_s = 0;
	unlink(file);
}

static int up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/view", dir);
	return 0;
}

static int down(void **state)
{
	char fresh[80];
	(void)state;
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	for (unsigned i = 0; i < 1000;
	     i++) { /* a membership that has stopped may have left a view that is being saved */
		unlink(path);
		unlink(fresh);
		if (rmdir(dir) == 0)
			return 0;
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	return -1;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_view_comes_back_as_it_was),
		cmocka_unit_test(old_and_foreign_ones_are_refused),
		cmocka_unit_test(torn_ones_are_refused),
		cmocka_unit_test(a_disk_that_takes_nothing_is_told),
		cmocka_unit_test(a_silent_source_is_no_reason_to_forget),
		cmocka_unit_test(a_source_that_answers_is_saved),
		cmocka_unit_test(a_file_of_before_1970_has_a_small_epoch),
	};
	return cmocka_run_group_tests_name("kvserver/saved", tests, up, down);
}
