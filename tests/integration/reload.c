/* SPDX-License-Identifier: Apache-2.0 */
/* reload.c -- a host that loads the library as a plug-in: dlopen, a pool, a value there and back, dlclose, and all of
 * it again.
 *
 *   reload LIBRARY HOST:PORT PROVIDER [nodoor]
 *   reload LIBRARY names
 *
 * With the doorkeeper the library stays loaded after dlclose, because libfabric calls it; with `nodoor` it goes, and
 * libfabric with it, where that has not been told to stay. The printed line counts. With `names` the name of a server
 * is still being looked up when the library is closed. It links no library of ours. A thread that has called the
 * library lives on until the library is gone, and ends then; a child is forked when it is gone: what the library has
 * left in the process would be called there. Prints one line; status 1 with a sentence if anything was not so. */
#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <kvrail/kvclient.h>

enum { ROUNDS = 3, VALUE = 200000 };

static unsigned char out_bytes[VALUE], in_bytes[VALUE];
static pthread_barrier_t called, gone;
static struct kvc_pool *pool;
static int (*put)(struct kvc_pool *, struct kvc_key, const void *, uint64_t, const struct kvc_call *);
static int64_t (*get)(struct kvc_pool *, struct kvc_key, void *, uint64_t, const struct kvc_call *);
static const char *(*name)(int);
static int thread_failed;

/* POSIX has functions as pointers to void; C has not. */
static int find(void *library, const char *function, void *to)
{
	void *at = dlsym(library, function);
	if (!at)
		fprintf(stderr, "reload: %s\n", dlerror());
	else
		memcpy(to, &at, sizeof(at));
	return at ? 0 : -1;
}

static int there_and_back(unsigned seed)
{
	struct kvc_key key = {"reload", 6};
	memset(out_bytes, (int)seed, sizeof(out_bytes));
	memset(in_bytes, 0, sizeof(in_bytes));
	return put(pool, key, out_bytes, VALUE, NULL) < 0 || get(pool, key, in_bytes, VALUE, NULL) != VALUE ||
	       memcmp(in_bytes, out_bytes, VALUE) != 0;
}

static void *other_thread(void *arg)
{
	(void)arg;
	thread_failed = there_and_back(7) || strcmp(name(-KV_ETIMEOUT), "KV_ETIMEOUT") != 0;
	pthread_barrier_wait(&called);
	pthread_barrier_wait(&gone);
	return NULL;
}

static int loaded(void)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	int found = 0;
	while (maps && fgets(line, sizeof(line), maps))
		found |= strstr(line, "libkvrail.so") != NULL;
	if (maps)
		fclose(maps);
	return found;
}

static int use(void *library, const char *server, const char *provider, enum kvc_door door)
{
	int (*pool_open)(const struct kvc_options *, struct kvc_pool **, struct kv_error *);
	void (*pool_close)(struct kvc_pool **);
	int (*delete_value)(struct kvc_pool *, struct kvc_key, const struct kvc_call *);
	const struct kvc_key key = {"reload", 6};
	struct kvc_options options = {.size = sizeof(options),
				      .num_clients = 1,
				      .servers = &server,
				      .num_servers = 1,
				      .provider = provider,
				      .log_level = 2,
				      .door = door,
				      .timeout_ns = 60000000000ull};
	struct kv_error err = {0};
	pthread_t thread;
	int wrong;
	if (find(library, "kvc_pool_open", &pool_open) || find(library, "kvc_pool_close", &pool_close) ||
	    find(library, "kvc_put", &put) || find(library, "kvc_get", &get) || find(library, "kvc_errname", &name) ||
	    find(library, "kvc_delete", &delete_value))
		return -1;
	if (pool_open(&options, &pool, &err) < 0) {
		fprintf(stderr, "reload: %s\n", err.text);
		return -1;
	}
	if (pthread_create(&thread, NULL, other_thread, NULL) != 0)
		return -1;
	pthread_barrier_wait(&called);
	wrong = thread_failed || delete_value(pool, key, NULL) < 0 || there_and_back(9) ||
		delete_value(pool, key, NULL) < 0;
	pool_close(&pool);
	dlclose(library);
	pthread_barrier_wait(&gone);
	pthread_join(thread, NULL);
	return wrong ? -1 : 0;
}

#define HANGS "a-name"

/* Stands before the C library's for the whole process: a name server that does not answer for HANGS before `gone`. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
	int (*ordinary)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	if (!host || strcmp(host, HANGS) != 0 || (hints && hints->ai_flags & AI_NUMERICHOST))
		return find(RTLD_NEXT, "getaddrinfo", &ordinary) ? EAI_FAIL : ordinary(host, service, hints, out);
	pthread_barrier_wait(&called);
	pthread_barrier_wait(&gone);
	return EAI_AGAIN;
}

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = -2; /* . and .. */
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* The thread that looks the name up outlives the pool, and runs in the library once more when it has its answer. */
static int unload_while_looking_up(void *library)
{
	int (*pool_open)(const struct kvc_options *, struct kvc_pool **, struct kv_error *);
	void (*pool_close)(struct kvc_pool **);
	const char *server = HANGS ":7411";
	struct kvc_options options = {.size = sizeof(options),
				      .num_clients = 1,
				      .servers = &server,
				      .num_servers = 1,
				      .provider = "tcp",
				      .log_level = 1,
				      .door = KVC_DOOR_OFF};
	struct kv_error err = {0};
	if (find(library, "kvc_pool_open", &pool_open) || find(library, "kvc_pool_close", &pool_close))
		return 1;
	if (pool_open(&options, &pool, &err) < 0) {
		fprintf(stderr, "reload: %s\n", err.text);
		return 1;
	}
	pthread_barrier_wait(&called);
	pool_close(&pool);
	dlclose(library);
	pthread_barrier_wait(&gone);
	while (threads() > 1)
		usleep(1000);
	printf("a thread that looked up a name has ended without its pool\n");
	return 0;
}

static int forked(void)
{
	int status = -1;
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

int main(int argc, char **argv)
{
	unsigned unloaded = 0;
	pthread_barrier_init(&called, NULL, 2);
	pthread_barrier_init(&gone, NULL, 2);
	if (argc == 3 && strcmp(argv[2], "names") == 0) {
		void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		return library ? unload_while_looking_up(library) : 1;
	}
	if (argc < 4) {
		fprintf(stderr, "usage: reload LIBRARY HOST:PORT PROVIDER [nodoor]\n       reload LIBRARY names\n");
		return 2;
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		if (!library) {
			fprintf(stderr, "reload: %s\n", dlerror());
			return 1;
		}
		if (use(library, argv[2], argv[3], argc > 4 ? KVC_DOOR_OFF : KVC_DOOR_AUTO) < 0) {
			fprintf(stderr, "reload: round %u failed\n", i);
			return 1;
		}
		unloaded += !loaded();
		if (forked()) {
			fprintf(stderr, "reload: round %u: fork without the library failed\n", i);
			return 1;
		}
	}
	printf("loaded %d times, unloaded %u times\n", (int)ROUNDS, unloaded);
	return 0;
}
