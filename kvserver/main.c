/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- kv-server: flags, a server on threads of its own, and signals.
 *
 * The main thread waits for signals by sigwait, and blocks them before any thread starts. Until the server runs,
 * another thread leaves SIGTERM and SIGINT unblocked, and they end the process at once. The first one begins the drain;
 * then both get their default effect back. After a client's drain (--allow-drain) the first SIGTERM is ignored, because
 * a service manager's stop often follows. SIGHUP rereads keys and certificates (key_reload.c), --config and
 * --log-level; SIGUSR1 and SIGUSR2 change that level.
 *
 * The HTTP port opens before the server is made, and closes last. It reports "draining" only when the server is about
 * to stop listening, since Kubernetes treats a pod that is not ready as gone. At a drain the values are pushed (push/)
 * while clients are served, then clients get GOODBYE, and the source loses this server.
 *
 * Exit status: 0 drained; 2 wrong command line, or an unusable file or object in it; 3 the server could not start. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/early.h"
#include "engine/engine.h"
#include "host/host.h"
#include "kvserver/drain_bounds.h"
#include "kvserver/events/publish.h"
#include "kvserver/events/zmq.h"
#include "kvserver/handover.h"
#include "kvserver/options.h"
#include "kvserver/http/http.h"
#include "kvserver/member/membership.h"
#include "kvserver/push/push.h"
#include "kvserver/push/recall.h"
#include "kvserver/stuck.h"
#include "kvserver/vanished.h"
#include "kvserver/server/server.h"

enum {
	EXIT_USAGE = 2,
	EXIT_START = 3,
	PSK_LINE_MAX = 1024,
	FILES_WANTED = 65536,
	FILES_OF_CLIENT = 8,
	DRAIN_MORE_S = 10, /* to end after the drain: memory is freed */
	VIEW_SOON_MS = 300,
	VIEW_LONG_S = 3600, /* time that systemd allows for a start while the first view is awaited */
	PEERS_MAX = 1024
};

/* Sent to the main thread by the membership's: there is a first view. */
#define VIEW_SIGNAL (SIGRTMIN + 1)

static sigset_t signals, stop_signals;

static void signals_block(void)
{
	sigemptyset(&stop_signals);
	sigaddset(&stop_signals, SIGTERM);
	sigaddset(&stop_signals, SIGINT);
	signals = stop_signals;
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGUSR2);
	sigaddset(&signals, DRAIN_SIGNAL);
	sigaddset(&signals, VIEW_SIGNAL);
	sigaddset(&signals, HANDOVER_SIGNAL);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
}

struct start {
	pthread_t thread;
	sem_t over;
	bool there;
};

static void *start_wait(void *arg)
{
	struct start *s = arg;
	pthread_sigmask(SIG_UNBLOCK, &stop_signals, NULL);
	while (sem_wait(&s->over) != 0)
		;
	return NULL;
}

static void start_begin(struct start *s)
{
	sem_init(&s->over, 0, 0);
	s->there = pthread_create(&s->thread, NULL, start_wait, s) == 0; /* else signals wait */
}

static void start_end(struct start *s)
{
	if (!s->there)
		return;
	sem_post(&s->over);
	pthread_join(s->thread, NULL);
	s->there = false;
}

static void signal_spent(int got)
{
	(void)got;
}

/* From now on SIGTERM and SIGINT end the process. asked: a client asked for the drain, so the first of each is ignored.
 */
static void signals_default(bool asked)
{
	const struct sigaction once = {.sa_handler = signal_spent, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
	const struct sigaction end = {.sa_handler = SIG_DFL};
	sigaction(SIGTERM, asked ? &once : &end, NULL);
	sigaction(SIGINT, asked ? &once : &end, NULL);
	pthread_sigmask(SIG_UNBLOCK, &stop_signals, NULL);
}

static void level_set(struct kv_log *log, enum kv_log_level level, const char *why)
{
	enum kv_log_level former = log->level, more = KV_MAX(former, level);
	kv_log_level_set(log, more);
	if (level != former)
		kv_event(log, more < KV_LOG_INFO ? more : KV_LOG_INFO,
			 KV_EVENT("log_level", KV_FIELD("level", kv_log_level_name(level)), KV_FIELD("cause", why)),
			 "%s: the log's level is %s", why, kv_log_level_name(level));
	kv_log_level_set(log, level);
}

/* The running parts, for the signals. */
struct run {
	pthread_t main;
	struct kvs_server *server;
	struct http *http;             /* or NULL */
	struct membership *membership; /* or NULL */
	struct recall *recall;         /* or NULL */
	struct flags *flags;
	struct start *start;
	struct drain *drain;
	struct kv_log *log;
	const char *psk;               /* of --psk-fd, or NULL */
	struct boot_security security; /* of the handover */
	struct handover *handover;     /* of --keep, once it serves; or NULL */
	int taken_fd;                  /* --handover: the connection to the server whose place it takes; or -1 */
	bool reported;                 /* --ready-fd is used up */
	bool replaced;
	int argc;
	char **argv;
};

/* Reread the file of options. */
static void config_reload(struct run *r)
{
	char taken[512], left[512];
	struct kv_error err = {0};
	if (!r->flags->config)
		return;
	if (flags_reload(r->argc, r->argv, r->flags, taken, left, sizeof(taken), &err)) {
		kv_event(r->log, KV_LOG_WARN, KV_EVENT("config_failed", KV_FIELD("reason", err.text)),
			 "SIGHUP: %s; all options stay as they were", err.text);
		return;
	}
	kvs_server_rates_set(r->server, r->flags->server.ttl_ns, r->flags->slow_ms * 1000000ull);
	drain_defaults(r->drain, r->flags->drain_sec * 1000000000ull, r->flags->drain_mb << 20);
	if (r->membership)
		membership_weigh(r->membership, r->flags->weight ? r->flags->weight : KV_WEIGHT_DEFAULT);
	kv_event(r->log, left[0] ? KV_LOG_WARN : KV_LOG_INFO,
		 KV_EVENT("config_read", KV_FIELD("file", r->flags->config), KV_FIELD("taken", taken),
			  KV_FIELD("restart", left)),
		 "SIGHUP: %s: %s%s%s%s%s%s", r->flags->config, taken[0] || left[0] ? "" : "nothing has changed",
		 taken[0] ? "taken: " : "", taken, taken[0] && left[0] ? "; " : "",
		 left[0] ? "changed, and needs a restart: " : "", left);
}

static void reload(struct run *r)
{
	enum kv_log_level level = r->log->level;
	config_reload(r);
	kv_log_level_parse(r->flags->log_level, &level);
	level_set(r->log, level, "SIGHUP");
	kv_info(r->log, "SIGHUP: %s",
		kvs_server_reload(r->server) ? "rereading keys and certificates"
					     : "no option names a file of keys or certificates to reread");
	if (r->http)
		http_reload(r->http);
}

/* The next signal. Twice per watchdog_ns (0: never) the service manager is informed that the loops turn. If one does
 * not, the message is omitted, and the manager ends this process after its time. */
static int signal_next(struct kvs_server *server, uint64_t watchdog_ns, struct kv_log *log)
{
	const struct timespec half = {.tv_sec = (time_t)(watchdog_ns / 2 / 1000000000),
				      .tv_nsec = (long)(watchdog_ns / 2 % 1000000000)};
	int got;
	if (watchdog_ns == 0)
		return sigwait(&signals, &got) == 0 ? got : 0;
	got = sigtimedwait(&signals, NULL, &half);
	if (got >= 0 || errno != EAGAIN)
		return KV_MAX(got, 0);
	if (kvs_server_alive(server))
		kv_service_tell("WATCHDOG=1");
	else
		kv_event(log, KV_LOG_WARN, KV_EVENT("loop_silent", KV_NUMBER("ms", watchdog_ns / 2000000)),
			 "a thread of the server has not answered for %.1f s; "
			 "the watchdog message to the service manager is omitted",
			 (double)watchdog_ns / 2e9);
	return 0;
}

static int signals_wait(struct run *r)
{
	struct kv_log *log = r->log;
	uint64_t watchdog_ns = kv_service_watchdog_ns();
	for (;;) {
		int got = signal_next(r->server, watchdog_ns, log);

		if (got == 0)
			continue;
		if (got == SIGHUP)
			reload(r);
		else if (got == SIGUSR1)
			level_set(log, log->level < KV_LOG_TRACE ? log->level + 1 : log->level, "SIGUSR1");
		else if (got == SIGUSR2)
			level_set(log, log->level > KV_LOG_ERROR ? log->level - 1 : log->level, "SIGUSR2");
		else
			return got;
	}
}

/* Each client and each handshake takes a few descriptors. The usual soft limit of 1024 protects programs with select(),
 * unlike this one. */
static void files_allow(unsigned clients)
{
	rlim_t wanted = KV_MAX((rlim_t)FILES_WANTED, (rlim_t)clients * FILES_OF_CLIENT);
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted)
		return;
	files.rlim_cur = KV_MIN(files.rlim_max, wanted);
	setrlimit(RLIMIT_NOFILE, &files);
}

/* False: the descriptor has no reader. */
static bool ready_write(int fd, const char *address)
{
	char line[KV_HOST_MAX + 32];
	int len = snprintf(line, sizeof(line), "READY %s\n", address);
	bool written = write(fd, line, (size_t)len) == len;
	close(fd);
	return written;
}

/* A line on standard output, in the log's form, without waiting: signals must be handled from now on. word: "READY". */
static void start_line(const struct kv_log_style *style, const char *word, const struct kv_event *event,
		       const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void start_line(const struct kv_log_style *style, const char *word, const struct kv_event *event,
		       const char *fmt, ...)
{
	struct kv_log_style plain = *style;
	char text[1536], line[KV_LOG_LINE_CAP], fields[KV_EVENT_CAP], now[KV_LOG_TIME_CAP];
	int len;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	plain.journal = false; /* concerns standard error */
	if (style->format == KV_LOG_TEXT)
		len = snprintf(line, sizeof(line), "%s %s %s%s\n", kv_log_time(now), word, text,
			       kv_event_text(event, fields));
	else
		len = (int)kv_log_line(&plain, KV_LOG_INFO, text, event, line, sizeof(line));
	kv_log_stdout(line, (size_t)len);
}

static void ready_print(const struct kvs_server *server, const struct http *http, const struct kv_log_style *style,
			const char *address)
{
	struct kvs_info info;
	char pages[160], took[32], url[KV_HOST_MAX + 16];
	kvs_server_info(server, &info);
	start_line(style, "READY",
		   KV_EVENT("ready", KV_FIELD("address", address), KV_FIELD("provider", info.provider),
			    KV_FIELD("fabric", info.fabric), KV_FIELD("device", info.device),
			    KV_FIELD("device_why", info.device_why), KV_NUMBER("threads", info.shards),
			    KV_NUMBER("rails", info.rails), KV_NUMBER("memory_bytes", info.memory_bytes),
			    KV_FIELD("security", info.security)),
		   "kv-server ready on %s (provider %s, fabric %s, device %s%s%s%s, "
		   "%u thread%s x %u rail%s, %s, security %s, %s%s%s%s%s)",
		   address, info.provider, info.fabric, info.device, info.device_why[0] ? " (" : "", info.device_why,
		   info.device_why[0] ? ")" : "", info.shards, kv_plural(info.shards), info.rails,
		   kv_plural(info.rails), kv_pages_format(&info.pages, pages, sizeof(pages)), info.security,
		   info.no_door[0] ? "no doorkeeper" : "doorkeeper",
		   info.congestion[0] ? ", congestion control on loopback " : "", info.congestion,
		   info.pull ? ", clients may read all of its memory" : "",
		   info.local ? ", clients on this host read in place" : "");
	start_line(style, "READY",
		   KV_EVENT("memory", KV_NUMBER("bytes", info.memory_bytes),
			    KV_FIELD("arena", info.shared ? "shared" : "private"), KV_NUMBER("parts", info.parts),
			    KV_NUMBER("register_us", info.register_ns / 1000)),
		   "memory for values: %s, registered in %u part%s in %s by %u thread%s; NUMA: %s",
		   info.shared ? "shared" : "private", info.parts, kv_plural(info.parts),
		   kv_duration_format(info.register_ns, took, sizeof(took)), info.register_threads,
		   kv_plural(info.register_threads), info.numa);
	if (http) {
		http_url(http, url, sizeof(url));
		start_line(style, "READY", KV_EVENT("http", KV_FIELD("url", url)), "metrics and health on %s", url);
	}
}

/* Inform the service manager. more: complete lines. */
static void manager_notify(struct kv_log *log, const char *what, const char *more)
{
	char lines[KV_HOST_MAX + 128];
	int rc;
	snprintf(lines, sizeof(lines), "%s\n%s", what, more);
	rc = kv_service_tell(lines);
	if (rc < 0)
		kv_event(log, KV_LOG_WARN,
			 KV_EVENT("manager_untold", KV_FIELD("what", what), KV_FIELD("reason", strerror(-rc))),
			 "cannot send %s to the service manager: NOTIFY_SOCKET: %s", what, strerror(-rc));
}

static int http_open(const struct flags *f, const struct kv_log *log, struct http **out, struct kv_error *err)
{
	const struct http_options options = {.addr = f->http_addr,
					     .insecure = f->http_insecure,
					     .cert_file = f->server.cert_file,
					     .key_file = f->server.key_file,
					     .log = log};
	return f->http_addr ? http_start(&options, out, err) : 0;
}

static void push_log(const struct kv_log *log, const struct kv_drained *d)
{
	char text[KV_DRAINED_TEXT], why[KV_DRAINED_TEXT];
	bool all = d->values == d->of;
	kv_event(log, all ? KV_LOG_INFO : KV_LOG_WARN,
		 KV_EVENT("drain_pushed", KV_NUMBER("values", d->values), KV_NUMBER("of", d->of),
			  KV_NUMBER("bytes", d->bytes), KV_NUMBER("gone", d->gone), KV_FIELD("all", all ? "yes" : "no"),
			  KV_FIELD("why", kv_drained_names(d, why, sizeof(why)))),
		 "drain: %s", kv_drained_text(d, text, sizeof(text)));
}

/* Other servers with a share of the keys after this one's end. Joining ones count: after an upgrade all may be joining.
 */
static unsigned members_staying(const struct kv_view *view, const char *self)
{
	unsigned count = 0;
	for (uint32_t i = 0; i < view->count; i++)
		count += view->member[i].state != KV_MEMBER_DRAINING && strcmp(view->member[i].node_id, self) != 0;
	return count;
}

/* Why nothing is pushed to other servers; KV_LEFT_REASONS: values are. */
static enum kv_left no_push_why(const struct push_options *o, unsigned others)
{
	if (!o->bytes_s)
		return KV_LEFT_OFF;
	return o->self && others ? KV_LEFT_REASONS : KV_LEFT_ALONE;
}

static void no_push_log(const struct run *r, const struct push_options *o, enum kv_left why, const struct kv_drained *d)
{
	const char *reason = kv_left_text(why);
	if (!r->membership)
		reason = "it has no --members";
	else if (why == KV_LEFT_ALONE && !o->self)
		reason = "this server has been in no view of --members";
	kv_event(r->log, d->of ? KV_LOG_WARN : KV_LOG_INFO,
		 KV_EVENT("drain_no_push", KV_FIELD("reason", reason), KV_NUMBER("of", d->of)),
		 "drain: none of %llu values is pushed to another server: %s", (unsigned long long)d->of, reason);
}

static void drain_announce(struct kvs_server *server)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	for (unsigned tries = 0; tries < 100 && kvs_server_drains(server) == -KV_EBUSY; tries++)
		nanosleep(&pause, NULL);
}

static void push(struct run *r, const struct push_options *o, unsigned others, struct kv_drained *out)
{
	struct kv_error err;
	char rate[32];
	kv_event(r->log, KV_LOG_INFO,
		 KV_EVENT("drain_push", KV_NUMBER("others", others), KV_NUMBER("bytes_s", o->bytes_s)),
		 "drain: pushing the values to %u other%s, the hottest first, %s per second at most", others,
		 kv_plural(others), kv_size_format(o->bytes_s, rate, sizeof(rate)));
	if (push_run(o, out, &err) == 0)
		push_log(r->log, out);
	else
		kv_event(r->log, KV_LOG_WARN,
			 KV_EVENT("drain_push_failed", KV_FIELD("reason", err.text), KV_NUMBER("of", out->of)),
			 "drain: none of %llu values is pushed to another server: %s", (unsigned long long)out->of,
			 err.text);
}

static void drain_push(struct run *r, const struct drain_bounds *bounds)
{
	const struct flags *f = r->flags;
	struct membership_now now = {.silence_ns = 0};
	struct push_options o = {.server = r->server,
				 .view = &now.view,
				 .bytes_s = bounds->bytes_s,
				 .until_ns = bounds->begun_ns + bounds->time_ns / 4 * 3,
				 .server_name = f->server_name};
	struct kv_drained done;
	enum kv_left why;
	struct kv_member self;
	unsigned others = 0;
	if (r->membership) {
		drain_announce(r->server);
		o.self = membership_drain(r->membership, &self) ? &self : NULL;
		if (membership_read(r->membership, &now) == 0)
			others = members_staying(&now.view, membership_self(r->membership));
	}
	why = no_push_why(&o, others);
	if (why == KV_LEFT_REASONS) {
		push(r, &o, others, &done);
	} else {
		push_none(r->server, why, &done);
		no_push_log(r, &o, why, &done);
	}
	kvs_server_drained(r->server, &done);
	kv_view_fini(&now.view);
}

/* Tests have less patience than an operator: KVRAIL_TEST_PACE divides waiting times of --members, and
 * KVRAIL_TEST_STUCK_PACE the time for a loop that does not turn. */
static unsigned pace_of(const char *text)
{
	uint64_t pace;
	return text && kv_u64_parse(text, &pace) == 0 && pace >= 1 && pace <= 1000 ? (unsigned)pace : 1;
}

/* Wait for the first view, until a signal comes: earlier clients would place keys by their own lists. Returns the
 * signal: VIEW_SIGNAL with a view. */
static int view_wait(struct run *r, const struct kv_log_style *style)
{
	const struct timespec soon = {.tv_nsec = VIEW_SOON_MS * 1000000};
	char url[KV_HOST_MAX + 16] = "", more[128];
	sigset_t first = stop_signals;
	int got;
	if (!r->membership)
		return VIEW_SIGNAL;
	sigaddset(&first, VIEW_SIGNAL);
	got = sigtimedwait(&first, NULL, &soon);
	if (got > 0)
		return got;
	if (r->http)
		http_url(r->http, url, sizeof(url));
	start_line(style, "WAITING", KV_EVENT("view_awaited", KV_FIELD("url", url)),
		   "for the first view of --members%s%s", url[0] ? "; metrics and health on " : "", url);
	snprintf(more, sizeof(more), "EXTEND_TIMEOUT_USEC=%llu\n", VIEW_LONG_S * 1000000ull);
	manager_notify(r->log, "STATUS=waiting for the first view of --members", more);
	return signals_wait(r);
}

/* The descriptor of --ready-fd is used once: when this server serves again after a failed hand-over, its number may be
 * another's. False: it has no reader, and the parent process has ended. */
static bool serving_report(struct run *r, const struct kv_log_style *style)
{
	const struct flags *f = r->flags;
	bool first = !r->reported;
	char address[KV_HOST_MAX], more[KV_HOST_MAX + 64];
	kvs_server_address(r->server, address, sizeof(address));
	ready_print(r->server, r->http, style, address);
	r->reported = true;
	if (first && f->ready_fd != FLAGS_FD_NONE && !ready_write((int)f->ready_fd, address) && f->die_with_parent) {
		kv_event(r->log, KV_LOG_WARN, KV_EVENT("parent_gone"),
			 "--ready-fd %u has no reader: the parent process has ended", f->ready_fd);
		return false;
	}
	snprintf(more, sizeof(more), "STATUS=serving on %s\n", address);
	manager_notify(r->log, "READY=1", more);
	return true;
}

static void keep(const struct run *r)
{
	struct kv_error err;
	uint64_t values, begun_ns = kv_now();
	char took[32];
	int rc = kvs_server_keep(r->server, &values, &err);
	if (rc)
		kv_event(r->log, KV_LOG_ERROR, KV_EVENT("keep_failed", KV_FIELD("reason", err.text)),
			 "--keep: the values are lost: %s", err.text);
	else
		kv_event(r->log, KV_LOG_INFO,
			 KV_EVENT("keep_written", KV_NUMBER("values", values),
				  KV_NUMBER("us", (kv_now() - begun_ns) / 1000)),
			 "--keep: the index of %llu values is in %s, after %s", (unsigned long long)values,
			 r->flags->server.keep, kv_duration_format(kv_now() - begun_ns, took, sizeof(took)));
}

/* Serve until a signal ends it. */
static void run(struct run *r, const struct kv_log_style *style)
{
	char more[128];
	struct drain_bounds bounds;
	struct stuck stuck;
	const char *cause;
	int got;
	if (r->http)
		http_serve(r->http, r->server);
	got = view_wait(r, style);
	if (got == VIEW_SIGNAL) {
		if (!serving_report(r, style))
			return;
		got = signals_wait(r);
	}
	cause = got == SIGTERM ? "SIGTERM" : "SIGINT";
	if (got == DRAIN_SIGNAL)
		cause = "a client's drain";
	r->replaced = got == HANDOVER_SIGNAL;
	if (r->replaced)
		cause = "a server takes this one's place";
	drain_begin(r->drain, &bounds);
	snprintf(more, sizeof(more), "STATUS=saying goodbye\nEXTEND_TIMEOUT_USEC=%llu\n",
		 (unsigned long long)bounds.time_ns / 1000 + DRAIN_MORE_S * 1000000ull);
	manager_notify(r->log, "STOPPING=1", more);
	if (!r->replaced) /* else it may have to serve again */
		signals_default(got == DRAIN_SIGNAL);
	stuck_begin(&stuck, r->server, got == SIGINT ? SIGINT : SIGTERM, pace_of(getenv("KVRAIL_TEST_STUCK_PACE")),
		    r->log);
	/* Kept values come back with the next server; a client's drain is for good. */
	if ((r->membership && !r->flags->server.keep) || got == DRAIN_SIGNAL)
		drain_push(r, &bounds);
	if (r->http)
		http_drain(r->http);
	kv_event(r->log, KV_LOG_INFO, KV_EVENT("goodbye", KV_FIELD("cause", cause)),
		 "%s: saying goodbye to the clients, and finishing requests in flight", cause);
	kvs_server_stop(r->server, drain_left_ns(r->drain));
	stuck_end(&stuck);
	if (r->flags->server.keep)
		keep(r);
	kv_event(r->log, KV_LOG_INFO, KV_EVENT("stopped"), "stopped");
}

static void on_members_ready(void *arg)
{
	const struct run *r = arg;
	pthread_kill(r->main, VIEW_SIGNAL);
}

/* A view without members is no use to clients: they keep theirs. */
static int on_view(void *arg, const struct kv_view *view)
{
	const struct run *r = arg;
	return view->count ? kvs_server_view_set(r->server, view) : 0;
}

static void on_away(void *run, bool away)
{
	while (kvs_server_away(((struct run *)run)->server, away) == -KV_EBUSY)
		usleep(1000); /* the watchdog handles a stuck loop */
}

/* Before the server exists, nothing can be in doubt. */
static int on_recall(void *run, const struct kv_view *view, int64_t since_ns)
{
	struct run *r = run;
	return r->recall ? recall_ask(r->recall, view, since_ns) : -KV_EBUSY;
}

static int membership_open(struct run *r, struct kv_error *err)
{
	struct membership_options options;
	char address[KV_HOST_MAX];
	int rc;
	if (!r->flags->members.members)
		return 0;
	kvs_server_address(r->server, address, sizeof(address));
	rc = flags_membership(r->flags, address, r->server->incarnation, r->log, &options, err);
	options.on_view = on_view;
	options.on_ready = on_members_ready;
	options.on_away = on_away;
	options.arg = r;
	options.pace = pace_of(getenv("KVRAIL_TEST_PACE"));
	if (rc == 0)
		rc = membership_start(&options, &r->membership, err);
	if (rc == 0 && r->http)
		http_membership(r->http, r->membership);
	return rc;
}

/* --handover: this server is made; the running one ends. */
static void place_take(const struct run *r)
{
	if (r->taken_fd >= 0 && !handover_await(r->taken_fd))
		kv_event(r->log, KV_LOG_WARN, KV_EVENT("handover_died"),
			 "--handover: the server whose place this one takes ended by itself");
}

static void place_offer(struct run *r, const struct kvs_options *options)
{
	struct kv_error err;
	r->security = (struct boot_security){.psk_file = options->psk_file, .psk = options->psk};
	handover_serving(&r->taken_fd);
	if (options->kept && handover_open(options, &r->security, r->server, &r->handover, &err))
		kv_event(r->log, KV_LOG_WARN, KV_EVENT("handover_impossible", KV_FIELD("reason", err.text)),
			 "no process can take this server's place (--handover): %s", err.text);
}

static int serve(struct run *r, const struct kvs_options *options, struct kv_error *err)
{
	/* The running server has the ports until it has ended. */
	int rc = r->taken_fd >= 0 ? 0 : http_open(r->flags, r->log, &r->http, err);
	if (rc == 0)
		rc = kvs_server_create(options, &r->server, err);
	if (rc == 0)
		place_take(r);
	if (rc == 0 && !r->http)
		rc = http_open(r->flags, r->log, &r->http, err);
	if (rc == 0)
		rc = kvs_server_start(r->server, err);
	if (rc == 0)
		place_offer(r, options);
	if (rc == 0 && r->flags->members.members && !(r->recall = recall_create(r->server, r->flags->server_name)))
		rc = kv_fail(err, -KV_ENOMEM, "no memory");
	start_end(r->start); /* later registrations must be undone */
	if (rc == 0)
		rc = membership_open(r, err);
	if (rc == 0)
		run(r, r->log->arg);
	http_stop(&r->http); /* it reads the server and the membership */
	membership_stop(&r->membership);
	recall_destroy(&r->recall);
	kvs_server_destroy(&r->server);
	return rc;
}

/* Take possession of what outlives this process, and serve, again if a successor dies before it serves. */
static int serve_kept(struct run *r, struct kvs_options *o, struct kv_error *err)
{
	const struct boot_security security = {.psk_file = o->psk_file, .psk = o->psk};
	bool again = true;
	int rc = r->flags->handover ? handover_take(o, &security, &o->kept, &r->taken_fd, err) : -KV_ENOTFOUND;
	if (rc == -KV_ENOTFOUND && r->flags->handover)
		kv_event(r->log, KV_LOG_INFO, KV_EVENT("handover_alone", KV_FIELD("reason", err->text)),
			 "%s; this one starts as usual", err->text);
	if (rc == -KV_ENOTFOUND)
		rc = kvs_kept_open(o, &o->kept, err);
	while (rc == 0 && again) {
		rc = serve(r, o, err);
		again = rc == 0 && r->replaced;
		if (again) {
			signals_default(false);
			again = !handover_finish(r->handover);
			pthread_sigmask(SIG_BLOCK, &signals, NULL);
		}
		if (again)
			kv_event(r->log, KV_LOG_WARN, KV_EVENT("handover_back"),
				 "the process that was to take this server's place has ended: this one serves again");
		handover_close(&r->handover);
		drain_init(r->drain, r->flags->drain_sec * 1000000000ull, r->flags->drain_mb << 20, r->log);
	}
	kvs_kept_close(&o->kept);
	return rc;
}

/* Keys of one identity differ behind the '#'. */
static int key_make(const char *path, const char *identity)
{
	struct kv_error err = {0};
	char prefix[KV_KEY_PREFIX_MAX + 1];
	snprintf(prefix, sizeof(prefix), "%s%s", identity ? identity : "kvrail-", identity ? "#" : "");
	if (kv_key_file_make(path, prefix, NULL, &err) < 0) {
		fprintf(stderr, "kv-server: %s\n", err.text);
		return EXIT_START;
	}
	printf("%s has a new key: copy it to the other machines, and give it to servers and clients as --psk-file\n",
	       path);
	return fflush(stdout) ? EXIT_START : 0;
}

static void failed_print(const struct kv_log_style *style, const char *why, const char *way_out)
{
	char line[KV_LOG_LINE_CAP];
	snprintf(line, sizeof(line), "%s%s", why, way_out);
	if (style->format == KV_LOG_JSON)
		kv_log_stderr((void *)(uintptr_t)style, KV_LOG_ERROR, line);
	else
		fprintf(stderr, "kv-server: %s\n", line);
}

/* Where --events zmq:... publishes them. */
static int events_where(const struct flags *f, struct publish_at *at, struct kvs_options *out, struct kv_error *err)
{
	if (strncmp(f->events, "zmq:", 4) != 0)
		return 0;
	out->events_transport = zmq_transport();
	if (!out->events_transport)
		return kv_fail(
			err, -KV_ENOTSUP,
			"--events %.100s: this kv-server was built without libzmq; install its headers "
			"(scripts/install-deps.sh) and build again, or use --events on and a client that follows",
			f->events);
	out->events_at = at;
	return publish_at_parse(f->events + 4, at, err);
}

int main(int argc, char **argv)
{
	struct kv_log_style style;
	struct kv_log log = {
		.level = KV_LOG_ERROR, .write = kv_log_stderr, .event = kv_log_stderr_event, .arg = &style};
	struct kvs_options options;
	struct publish_at at;
	struct kv_error err = {0};
	struct flags f = {0};
	struct drain drain;
	struct start start;
	struct run r = {.main = pthread_self(),
			.flags = &f,
			.start = &start,
			.drain = &drain,
			.log = &log,
			.taken_fd = -1,
			.argc = argc,
			.argv = argv};
	char psk[PSK_LINE_MAX];
	int rc;
	kv_early_end(true);
	if (kv_stdio_reserve(&err)) {
		fprintf(stderr, "kv-server: %s\n", err.text);
		return EXIT_START;
	}
	rc = flags_parse(argc, argv, &f, &err);
	kv_log_style_from(&style, "kv-server");
	style.format = (enum kv_log_format)f.log_format;
	/* --max-clients counts sessions, and many may share one connection. Queues for thousands of peers would be
	 * waste. */
	if (rc == 0)
		te_env_for_peers(KV_MIN(f.server.max_clients + CLUSTER_PLACES, (uint32_t)PEERS_MAX));
	te_env_for_programs();
	if (rc) {
		if (rc < 0)
			failed_print(&style, err.text, " (try --help)");
		return rc > 0 ? 0 : EXIT_USAGE;
	}
	if (f.make_psk)
		return key_make(f.make_psk, f.identity);
	kv_log_level_parse(f.log_level, &log.level);
	if (f.die_with_parent)
		prctl(PR_SET_PDEATHSIG, SIGTERM);
	files_allow(f.server.max_clients + CLUSTER_PLACES);
	signals_block();
	vanished_watch();
	start_begin(&start);
	if (f.psk_fd != FLAGS_FD_NONE)
		rc = flags_psk_read((int)f.psk_fd, psk, sizeof(psk), &err);
	if (rc == 0) {
		r.psk = f.psk_fd != FLAGS_FD_NONE ? psk : NULL;
		flags_options(&f, r.psk, &log, &options);
		rc = events_where(&f, &at, &options, &err);
	}
	if (rc == 0) {
		drain_init(&drain, f.drain_sec * 1000000000ull, f.drain_mb << 20, &log);
		options.on_drain = f.allow_drain ? drain_ask : NULL;
		options.on_drain_arg = &drain;
		options.recall = on_recall;
		options.recall_arg = &r;
		rc = options.keep ? serve_kept(&r, &options, &err) : serve(&r, &options, &err);
	}
	start_end(&start);
	explicit_bzero(psk, sizeof(psk));
	if (rc)
		failed_print(&style, err.text, "");
	if (rc == 0)
		return 0;
	return rc == -KV_EINVAL ? EXIT_USAGE : EXIT_START;
}
