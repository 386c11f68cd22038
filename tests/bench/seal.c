/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c -- what sealing and opening a piece costs beside AES-256-GCM alone: `seal [KIB [ROUNDS]]`.
 *
 * One thread. The rounds of all rows take turns, and each has the median of its rounds: GB/s of processor time, and as
 * a ratio to AES-256-GCM by EVP of the same bytes, with the key set once. Values are larger than the caches of one
 * core, as values that come from the network are. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "kvclient/seal/sealed.h"
#include "tests/bench/result.h"

enum { ROUNDS_MAX = 1001, VALUES = 16 };

static uint8_t *plain, *stored, *out;
static uint64_t len = 1 << 20;
static struct kc_sealer *sealer;
static EVP_CIPHER_CTX *raw[2];
static const uint8_t key[32] = {1}, nonce[12] = {2};

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "seal: %s\n", what);
	exit(1);
}

static struct kc_seal_value value(void)
{
	return (struct kc_seal_value){.key = {"bench", 5}, .len = len, .generation = 1};
}

static void seal(unsigned i)
{
	struct kc_seal_value v = value();
	struct kv_hasher h;
	kv_hasher_init(&h);
	for (uint64_t at = 0, to = 0, n; at < len; at += n, to += n + KC_SEAL_EXTRA) {
		uint8_t *piece = stored + i * kc_sealed_len(len) + to;
		n = KV_MIN(len - at, (uint64_t)KC_SEAL_PIECE);
		check(kc_seal_piece(sealer, &v, &(struct kc_target){.at = plain + i * len, .skip = at}, piece) == 0,
		      "a piece is not sealed");
		kv_hasher_update(&h, piece, n + KC_SEAL_EXTRA); /* as a PUT does */
	}
	check(kv_hasher_digest(&h) != 0, "no checksum");
}

static void open_value(unsigned i)
{
	struct kc_seal_value v = value();
	for (uint64_t at = 0, from = 0, n; at < len; at += n, from += n + KC_SEAL_EXTRA) {
		n = KV_MIN(len - at, (uint64_t)KC_SEAL_PIECE);
		check(kc_open_piece(sealer, &v, stored + i * kc_sealed_len(len) + from,
				    &(struct kc_target){.at = out + i * len, .skip = at}, 0, n) == 0,
		      "a piece is not opened");
	}
}

static void raw_run(unsigned i, int encrypt)
{
	for (uint64_t at = 0, n; at < len; at += n) {
		int got;
		n = KV_MIN(len - at, (uint64_t)KC_SEAL_PIECE);
		check(EVP_CipherInit_ex(raw[encrypt], NULL, NULL, NULL, nonce, encrypt) == 1 &&
			      EVP_CipherUpdate(raw[encrypt], out + i * len + at, &got, plain + i * len + at, (int)n) ==
				      1,
		      "AES-256-GCM fails");
	}
}

static void raw_seal(unsigned i)
{
	raw_run(i, 1);
}

static void raw_open(unsigned i)
{
	raw_run(i, 0);
}

static const struct row {
	const char *name;
	void (*run)(unsigned i);
	unsigned beside; /* the row that it is compared with */
} rows[] = {{"EVP encrypt", raw_seal, 0}, {"EVP decrypt", raw_open, 1}, {"seal", seal, 0}, {"open", open_value, 1}};

static double spent[KV_COUNT(rows)][ROUNDS_MAX];

static double cpu_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static void sealer_open(void)
{
	char path[] = "/tmp/kvrail-bench-seal-XXXXXX";
	static const char line[] = "k:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
	struct kc_seal_keys *keys;
	struct kv_error err;
	int fd = mkstemp(path);
	check(fd >= 0 && write(fd, line, sizeof(line) - 1) == (ssize_t)sizeof(line) - 1, "no file for a key");
	close(fd);
	check(kc_seal_keys_load(path, "", false, &keys, &err) == 0, err.text);
	unlink(path);
	check(kc_sealer_create(keys, &sealer) == 0, "no sealer");
}

static void raw_make(void)
{
	for (int encrypt = 0; encrypt < 2; encrypt++) {
		raw[encrypt] = EVP_CIPHER_CTX_new();
		check(raw[encrypt] &&
			      EVP_CipherInit_ex(raw[encrypt], EVP_aes_256_gcm(), NULL, key, nonce, encrypt) == 1,
		      "no AES-256-GCM");
	}
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 101;
	len = argc > 1 ? (uint64_t)atoll(argv[1]) << 10 : len;
	check(len > 0 && rounds > 0 && rounds <= ROUNDS_MAX, "usage: seal [KIB [ROUNDS]]");
	plain = calloc(VALUES, len);
	out = calloc(VALUES, len);
	stored = calloc(VALUES, kc_sealed_len(len));
	check(plain && out && stored, "no memory");
	sealer_open();
	raw_make();
	for (unsigned i = 0; i < VALUES; i++)
		seal(i);
	for (unsigned r = 0; r < rounds; r++)
		for (unsigned k = 0; k < KV_COUNT(rows); k++) {
			double began = cpu_now();
			for (unsigned i = 0; i < VALUES; i++)
				rows[k].run(i);
			spent[k][r] = cpu_now() - began;
		}
	for (unsigned k = 0; k < KV_COUNT(rows); k++)
		qsort(spent[k], rounds, sizeof(double), by_size);
	for (unsigned k = 0; k < KV_COUNT(rows); k++)
		printf("%-12s %6.2f GB/s  %.2f\n", rows[k].name, (double)(VALUES * len) / spent[k][rounds / 2] / 1e9,
		       spent[rows[k].beside][rounds / 2] / spent[k][rounds / 2]);
	return 0;
}
