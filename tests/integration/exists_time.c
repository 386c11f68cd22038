/* SPDX-License-Identifier: Apache-2.0 */
/* exists_time.c -- whether EXISTS takes as long for keys that others have stored as for keys that nobody has.
 *
 *   exists_time SERVER PSK_FILE NAMESPACE COUNT     0: no difference is seen; 1: there is one, or a key was found; 2:
 * else
 *
 * The client has no right in the namespace, where k0 to k999 are stored; m0 to m999 are not. One key is asked for at a
 * time, of either kind by the toss of a coin, so whatever else happens on the machine happens to both. The test of Mann
 * and Whitney compares the two samples, whose distribution it need not know. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kvrail/kvclient.h>

enum { KEYS = 1000, WARM = 2000 };

#define Z_SQUARE_MAX 20.0 /* of equal samples one in 130,000 is beyond */

struct sample {
	double ns;
	int foreign;
};

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_time(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;
	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* The square of the standardized rank sum of the foreign keys; equal times share their ranks. */
static double z_square(struct sample *s, long n)
{
	double sum = 0, foreign = 0, mean, variance;
	qsort(s, (size_t)n, sizeof(*s), by_time);
	for (long i = 0, end; i < n; i = end) {
		for (end = i; end < n && s[end].ns == s[i].ns; end++)
			foreign += s[end].foreign;
		for (long k = i; k < end; k++)
			sum += s[k].foreign * ((double)(i + end - 1) / 2 + 1);
	}
	mean = foreign * ((double)n + 1) / 2;
	variance = foreign * ((double)n - foreign) * ((double)n + 1) / 12;
	return (sum - mean) * (sum - mean) / variance;
}

static int sample_take(struct kvc_pool *pool, unsigned *seed, struct sample *out)
{
	char name[16];
	struct kvc_key key = {name, 0};
	unsigned char found = 0;
	unsigned prefix;
	double begin;
	int rc;
	out->foreign = rand_r(seed) & 1;
	key.len = (size_t)snprintf(name, sizeof(name), "%c%d", out->foreign ? 'k' : 'm', rand_r(seed) % KEYS);
	begin = now_ns();
	rc = kvc_exists(pool, &key, 1, &found, &prefix, NULL);
	out->ns = now_ns() - begin;
	return rc < 0 ? rc : found;
}

int main(int argc, char **argv)
{
	const char *servers[] = {argc > 1 ? argv[1] : ""};
	struct kvc_options o = {.size = sizeof(o), .servers = servers, .num_servers = 1, .num_clients = 1};
	long n = argc > 4 ? atol(argv[4]) : 0;
	struct sample *s = calloc((size_t)n + WARM, sizeof(*s));
	unsigned seed = (unsigned)time(NULL);
	struct kvc_pool *pool = NULL;
	struct kv_error err;
	double z;
	if (n < 1 || !s)
		return 2;
	o.psk_file = argv[2];
	o.namespace_name = argv[3];
	o.flags = KVC_OPEN_WAIT;
	if (kvc_pool_open(&o, &pool, &err) != 0) {
		fprintf(stderr, "%s\n", err.text);
		return 2;
	}
	printf("seed %u\n", seed);
	for (long i = 0; i < n + WARM; i++) {
		int rc = sample_take(pool, &seed, &s[i]);
		if (rc != 0) {
			fprintf(stderr, "EXISTS: %d\n", rc);
			return rc < 0 ? 2 : 1;
		}
	}
	z = z_square(s + WARM, n);
	printf("%ld samples, median %.0f ns, z squared %.2f of at most %.0f\n", n, s[WARM + n / 2].ns, z, Z_SQUARE_MAX);
	kvc_pool_close(&pool);
	free(s);
	return z <= Z_SQUARE_MAX ? 0 : 1;
}
