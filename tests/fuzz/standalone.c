/* SPDX-License-Identifier: Apache-2.0 */
/* standalone.c -- a main() for fuzz targets where there is no libFuzzer: TARGET [-random N] [-seed S] FILE|DIRECTORY...
 *
 * Runs LLVMFuzzerTestOneInput over every file, then over N mutations of them (flips, edge numbers, truncations,
 * splices). Input i of a seed is always the same, whatever came before it, so long as the files are. Each input lies in
 * a malloc block of exactly its size, so that AddressSanitizer sees a read past its end. When the target dies or
 * hangs, its input is printed in hex: no file is left behind. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

enum { INPUT_MAX = 1 << 16, GROW_MAX = 64, STEPS_MAX = 6, CORPUS_MAX = 4096, SECONDS_MAX = 20 };

struct input {
	uint8_t *data;
	size_t len;
	char *name;
};

static struct input corpus[CORPUS_MAX];
static size_t corpus_n;

/* What runs now, for the last words. */
static const uint8_t *current;
static size_t current_len;
static char current_name[512];

/* Only calls that a signal handler may make. */
static void say(const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDERR_FILENO, text, len);
		if (n <= 0)
			return;
		text += n;
		len -= (size_t)n;
	}
}

static void last_words(void)
{
	static const char digits[] = "0123456789abcdef";
	if (!current)
		return;
	say("\nfailing input: ", 16);
	say(current_name, strlen(current_name));
	say("\nhex: ", 6);
	for (size_t i = 0; i < current_len; i++) {
		char hex[2] = {digits[current[i] >> 4], digits[current[i] & 15]};
		say(hex, 2);
	}
	say("\n", 1);
	current = NULL;
}

static void on_signal(int signal_number)
{
	last_words();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

/* A sanitizer brings its own handlers, whose reports say more; it calls back at the end of them. */
static void catch_deaths(void)
{
	signal(SIGABRT, on_signal);
	signal(SIGALRM, on_signal);
	if (__sanitizer_set_death_callback) {
		__sanitizer_set_death_callback(last_words);
		return;
	}
	signal(SIGSEGV, on_signal);
	signal(SIGBUS, on_signal);
	signal(SIGFPE, on_signal);
	signal(SIGILL, on_signal);
}

static void run_one(const uint8_t *data, size_t len)
{
	uint8_t *exact = malloc(len);
	if (!exact && len > 0) {
		perror("malloc");
		exit(2);
	}
	if (len)
		memcpy(exact, data, len);
	current = exact;
	current_len = len;
	alarm(SECONDS_MAX);
	LLVMFuzzerTestOneInput(exact, len);
	alarm(0);
	current = NULL;
	free(exact);
}

/* ---- corpus ---- */

static void load_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct input *in = &corpus[corpus_n];
	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(2);
	}
	if (corpus_n == CORPUS_MAX) {
		fprintf(stderr, "%s: more than %d files; name fewer\n", path, CORPUS_MAX);
		exit(2);
	}
	in->data = malloc(INPUT_MAX);
	in->name = strdup(path);
	if (!in->data || !in->name) {
		perror("malloc");
		exit(2);
	}
	in->len = fread(in->data, 1, INPUT_MAX, f);
	if (ferror(f) || getc(f) != EOF) {
		fprintf(stderr, "%s: cannot be read, or is longer than %d bytes\n", path, INPUT_MAX);
		exit(2);
	}
	fclose(f);
	corpus_n++;
}

/* Sorted, so that input i of a seed does not depend on the file system. */
static void load_dir(const char *path)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, alphasort);
	if (n < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(2);
	}
	for (int i = 0; i < n; i++) {
		char name[4096];
		if (entries[i]->d_name[0] != '.') {
			snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
			load_file(name);
		}
		free(entries[i]);
	}
	free(entries);
}

static void load(const char *path)
{
	struct stat st;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		load_dir(path);
	else
		load_file(path);
}

/* ---- mutation ---- */

static size_t place(struct kv_prng *p, size_t len)
{
	return (size_t)kv_prng_below(p, len + 1);
}

static void flip_bit(struct kv_prng *p, uint8_t *data, size_t len)
{
	if (len)
		data[kv_prng_below(p, len)] ^= (uint8_t)(1u << kv_prng_below(p, 8));
}

/* A number that tends to lie at an edge, 1 to 8 bytes wide, little-endian. */
static void put_number(struct kv_prng *p, uint8_t *data, size_t len)
{
	static const uint64_t edges[] = {0,   1,     7,     8,          127,        128,        255,
					 256, 32767, 65535, UINT32_MAX, UINT64_MAX, 1ull << 30, 1ull << 63};
	uint64_t v = kv_prng_below(p, 4) ? edges[kv_prng_below(p, KV_COUNT(edges))] + kv_prng_below(p, 3) - 1
					 : kv_prng_next(p);
	size_t width = (size_t)1 << kv_prng_below(p, 4);
	uint8_t little[8];
	if (len < width)
		return;
	kv_put64(little, v);
	memcpy(data + kv_prng_below(p, len - width + 1), little, width);
}

static size_t remove_some(struct kv_prng *p, uint8_t *data, size_t len)
{
	size_t at = place(p, len), n = place(p, KV_MIN(len - at, (size_t)GROW_MAX));
	memmove(data + at, data + at + n, len - at - n);
	return len - n;
}

static size_t insert_some(struct kv_prng *p, uint8_t *data, size_t len)
{
	size_t at = place(p, len), n = place(p, GROW_MAX);
	if (len + n > INPUT_MAX)
		return len;
	memmove(data + at + n, data + at, len - at);
	if (kv_prng_below(p, 2))
		kv_prng_fill(p, data + at, n);
	else
		memset(data + at, 0, n);
	return len + n;
}

/* The front of this input and the back of another. */
static size_t splice(struct kv_prng *p, uint8_t *data, size_t len)
{
	const struct input *other = corpus_n ? &corpus[kv_prng_below(p, corpus_n)] : NULL;
	size_t at = place(p, len), from, n;
	if (!other)
		return len;
	from = place(p, other->len);
	n = KV_MIN(other->len - from, (size_t)INPUT_MAX - at);
	memcpy(data + at, other->data + from, n);
	return at + n;
}

static size_t mutate_once(struct kv_prng *p, uint8_t *data, size_t len)
{
	switch (kv_prng_below(p, 8)) {
	case 0:
	case 1:
		flip_bit(p, data, len);
		return len;
	case 2:
	case 3:
		put_number(p, data, len);
		return len;
	case 4:
		return place(p, len);
	case 5:
		return remove_some(p, data, len);
	case 6:
		return insert_some(p, data, len);
	default:
		return splice(p, data, len);
	}
}

static void run_mutation(uint64_t seed, uint64_t i)
{
	static uint8_t data[INPUT_MAX];
	struct kv_prng p;
	size_t len = 0;
	kv_prng_seed(&p, seed ^ (i + 1) * 0x9e3779b97f4a7c15ull);
	if (corpus_n) {
		const struct input *from = &corpus[kv_prng_below(&p, corpus_n)];
		len = from->len;
		memcpy(data, from->data, len);
	}
	for (uint64_t steps = 1 + kv_prng_below(&p, STEPS_MAX); steps > 0; steps--)
		len = mutate_once(&p, data, len);
	snprintf(current_name, sizeof(current_name), "mutation %" PRIu64 " of seed %" PRIu64, i, seed);
	run_one(data, len);
}

static uint64_t number(const char *option, const char *text)
{
	char *end = NULL;
	uint64_t v;
	errno = 0;
	v = text ? strtoull(text, &end, 0) : 0;
	if (!text || end == text || *end || errno) {
		fprintf(stderr, "%s needs a number\n", option);
		exit(2);
	}
	return v;
}

int main(int argc, char **argv)
{
	uint64_t count = 0, seed = 0;
	bool seeded = false;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-random") == 0) {
			count = number("-random", argv[i + 1]);
			i++;
		} else if (strcmp(argv[i], "-seed") == 0) {
			seed = number("-seed", argv[i + 1]);
			seeded = true;
			i++;
		} else {
			load(argv[i]);
		}
	}
	if (!seeded)
		seed = kv_seed_from_env("KVRAIL_SEED");
	catch_deaths();
	fprintf(stderr, "seed %" PRIu64 "\n", seed);
	for (size_t i = 0; i < corpus_n; i++) {
		snprintf(current_name, sizeof(current_name), "%s", corpus[i].name);
		run_one(corpus[i].data, corpus[i].len);
	}
	for (uint64_t i = 0; i < count; i++)
		run_mutation(seed, i);
	printf("seed %" PRIu64 ": %zu files and %" PRIu64 " mutations, no finding\n", seed, corpus_n, count);
	for (size_t i = 0; i < corpus_n; i++) {
		free(corpus[i].data);
		free(corpus[i].name);
	}
	return 0;
}
