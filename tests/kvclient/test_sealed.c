/* SPDX-License-Identifier: Apache-2.0 */
/* test_sealed.c -- sealed values without a server: the format, its bindings, keys and their file. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvclient/seal/sealed.h"
#include "tests/check.h"

enum { SMALL = 100, LARGE = 2 * KC_SEAL_PIECE + 3 };

/* Keys of bytes 0 to 31, and 32 to 63. */
#define FIRST  "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define SECOND "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"

static char folder[] = "/tmp/kvrail-test-sealed-XXXXXX", path[64];

static void file_write(const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static struct kc_seal_keys *keys_of(const char *text, const char *space, bool names)
{
	struct kc_seal_keys *keys = NULL;
	struct kv_error err = {0};
	file_write(text, 0600);
	if (kc_seal_keys_load(path, space, names, &keys, &err) < 0)
		fail_msg("%s", err.text);
	return keys;
}

struct fixture {
	struct kc_seal_keys *keys;
	struct kc_sealer *sealer;
};

static struct fixture fixture(const char *text, const char *space, bool names)
{
	struct fixture f = {.keys = keys_of(text, space, names)};
	assert_int_equal(kc_sealer_create(f.keys, &f.sealer), 0);
	return f;
}

static void fixture_end(struct fixture *f)
{
	kc_sealer_destroy(&f->sealer);
	kc_seal_keys_destroy(&f->keys);
}

static struct kc_seal_value value_of(const char *name, uint64_t len, uint64_t generation)
{
	return (struct kc_seal_value){.key = {name, strlen(name)}, .len = len, .generation = generation};
}

static uint8_t *seal(const struct fixture *f, const char *name, const uint8_t *value, uint64_t len, uint64_t generation)
{
	struct kc_seal_value v = value_of(name, len, generation);
	uint8_t *out = malloc(kc_sealed_len(len));
	struct kv_hasher h;
	assert_non_null(out);
	kv_hasher_init(&h);
	assert_int_equal(kc_seal_await(f->sealer, &v, &(struct kc_target){.at = (uint8_t *)(uintptr_t)value},
				       kc_sealed_len(len), out, &h),
			 kc_sealed_len(len));
	assert_int_equal(kv_hasher_digest(&h), kv_hash_block(out, kc_sealed_len(len)));
	return out;
}

/* Open the whole value that v describes. */
static int open_all(const struct fixture *f, struct kc_seal_value v, const uint8_t *stored, uint8_t *to)
{
	int rc = 0;
	for (uint64_t at = 0, n; rc == 0 && at < v.len; at += n) {
		struct kc_target target = {.at = to, .skip = at};
		n = KV_MIN(v.len - at, (uint64_t)KC_SEAL_PIECE);
		rc = kc_open_piece(f->sealer, &v, stored + v.piece * KC_SEAL_STORED, &target, 0, n);
	}
	return rc;
}

static void check_refused(const struct fixture *f, const struct kc_seal_value *v, const uint8_t *stored)
{
	uint8_t *to = malloc(v->len);
	assert_int_equal(open_all(f, *v, stored, to), -KV_ECORRUPT);
	free(to);
}

/* ---- the format ---- */

static void check_hex(const uint8_t *at, size_t len, const char *want)
{
	char hex[2 * 256 + 1] = "";
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", at[i]);
	assert_string_equal(hex, want);
}

/* Made by another implementation: scripts of Python with the package cryptography. */
static void known_answers(void **state)
{
	struct fixture f = fixture("a:" FIRST "\nnames:" SECOND "\n", "ns", true);
	uint8_t value[SMALL], *stored, *large = malloc(LARGE), digest[KV_DIGEST], name[KC_SEAL_NAME];
	(void)state;
	for (unsigned i = 0; i < SMALL; i++)
		value[i] = (uint8_t)(i * 7);
	stored = seal(&f, "block", value, SMALL, 5);
	check_hex(stored, kc_sealed_len(SMALL),
		  "4b565331563da8ea0500000000000000dc6c713bb38eaf18c16b23eaec3e90df00000000000000000000000000000000"
		  "f5375736f0abbeb702173ce763e7d9e6745d83396475fb03cd35a242c7b30314c8b46c00f77931e2c9e7cd35c160ef09"
		  "b82fa453d4313330d7a1d6062c84723f733aa39814bcae86c4548eb0545e297e2de3410cdc3a04793a00f0c9a30f8582"
		  "e7165b710b8a2967c05debf73eddbab8e83c2139");
	free(stored);
	assert_int_equal(kc_seal_name(f.sealer, (struct kvc_key){"block", 5}, name), 0);
	check_hex(name, sizeof(name), "443f0813a123b4522f4f4c56ccc70fdb53513eae930cfe70f1521a82d962fa81");
	fixture_end(&f);

	f = fixture("a:" FIRST "\n", "", false);
	for (unsigned i = 0; i < LARGE; i++)
		large[i] = (uint8_t)((uint64_t)i * i >> 3);
	stored = seal(&f, "k", large, LARGE, 0);
	assert_int_equal(kv_digest(stored, kc_sealed_len(LARGE), digest), 0);
	check_hex(digest, sizeof(digest), "9ce59542282684a129b898d2cc3ec7af28fee749bfc87a74f85e2b6fdee1f442");
	free(stored);
	free(large);
	fixture_end(&f);
}

static void lengths_are_told_from_stored_ones(void **state)
{
	const uint64_t lengths[] = {1, 2, 63, 64, 65, 65535, 65536, 65537, 131072, 131073, 1 << 20, KV_VALUE_MAX};
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(lengths); i++)
		assert_int_equal(kc_sealed_plain(kc_sealed_len(lengths[i])), lengths[i]);
	assert_int_equal(kc_sealed_len(65536), 65600);
	assert_int_equal(kc_sealed_len(65537), 65665);
	for (uint64_t none = 0; none <= 64; none++)
		assert_int_equal(kc_sealed_plain(none), 0);
	for (uint64_t none = KC_SEAL_STORED + 1; none <= KC_SEAL_STORED + 64; none++)
		assert_int_equal(kc_sealed_plain(none), 0);
}

static void equal_values_are_stored_alike_and_others_are_not(void **state)
{
	struct fixture f = fixture("a:" FIRST "\n", "", false);
	uint8_t value[SMALL] = {1}, *a = seal(&f, "k", value, SMALL, 0), *b = seal(&f, "k", value, SMALL, 0);
	(void)state;
	assert_memory_equal(a, b, kc_sealed_len(SMALL));
	free(b);
	value[SMALL - 1] ^= 1;
	b = seal(&f, "k", value, SMALL, 0);
	assert_memory_not_equal(a + 16, b + 16, 16); /* another salt, so another key */
	free(b);
	value[SMALL - 1] ^= 1;
	b = seal(&f, "l", value, SMALL, 0);
	assert_memory_not_equal(a + 16, b + 16, 16);
	free(a);
	free(b);
	fixture_end(&f);
}

/* ---- the bindings ---- */

static void every_flipped_bit_is_noticed(void **state)
{
	struct fixture f = fixture("a:" FIRST "\n", "ns", false);
	uint8_t value[SMALL], got[SMALL], *stored;
	char name[] = "block";
	struct kc_seal_value v = value_of(name, SMALL, 5);
	(void)state;
	memset(value, 0x5A, sizeof(value));
	stored = seal(&f, name, value, SMALL, 5);
	assert_int_equal(open_all(&f, v, stored, got), 0);
	assert_memory_equal(got, value, SMALL);
	for (uint64_t bit = 0; bit < 8 * kc_sealed_len(SMALL); bit++) {
		stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
		check_refused(&f, &v, stored);
		stored[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (unsigned bit = 0; bit < 8 * strlen(name); bit++) {
		name[bit / 8] ^= (char)(1 << bit % 8);
		check_refused(&f, &v, stored);
		name[bit / 8] ^= (char)(1 << bit % 8);
	}
	assert_int_equal(open_all(&f, v, stored, got), 0);
	free(stored);
	fixture_end(&f);
}

static void another_place_is_refused(void **state)
{
	struct fixture f = fixture("a:" FIRST "\n", "ns", false), other;
	uint8_t *value = calloc(1, LARGE), *stored = seal(&f, "key", value, LARGE, 5), *got = malloc(LARGE + 1);
	struct kc_seal_value v = value_of("key", LARGE, 5), w;
	(void)state;
	assert_int_equal(open_all(&f, v, stored, got), 0);
	w = value_of("key", LARGE, 4); /* a client that has not heard of the generation yet */
	assert_int_equal(open_all(&f, w, stored, got), 0);
	w = value_of("key", LARGE, 6);
	check_refused(&f, &w, stored);
	w = value_of("ke", LARGE, 5);
	check_refused(&f, &w, stored);
	w = value_of("key", LARGE - 1, 5);
	check_refused(&f, &w, stored);
	w = value_of("key", KC_SEAL_PIECE, 5); /* shortened to whole pieces */
	check_refused(&f, &w, stored);
	other = fixture("a:" FIRST "\n", "nt", false);
	check_refused(&other, &v, stored);
	fixture_end(&other);
	other = fixture("a:" FIRST "\n", "", false);
	check_refused(&other, &v, stored);
	fixture_end(&other);
	other = fixture("a:" SECOND "\n", "ns", false);
	check_refused(&other, &v, stored);
	fixture_end(&other);
	free(value);
	free(stored);
	free(got);
	fixture_end(&f);
}

static void pieces_cannot_be_exchanged(void **state)
{
	struct fixture f = fixture("a:" FIRST "\n", "", false);
	uint8_t *value = calloc(1, 2 * KC_SEAL_PIECE), *a, *b, *swap = malloc(KC_SEAL_STORED);
	struct kc_seal_value v = value_of("key", (uint64_t)2 * KC_SEAL_PIECE, 0);
	(void)state;
	a = seal(&f, "key", value, v.len, 0);
	value[0] = 1; /* another value of the key, whose second piece has the same bytes */
	b = seal(&f, "key", value, v.len, 0);
	memcpy(swap, a + KC_SEAL_STORED, KC_SEAL_STORED);
	memcpy(a + KC_SEAL_STORED, b + KC_SEAL_STORED, KC_SEAL_STORED); /* the second one of the other value */
	check_refused(&f, &v, a);
	memcpy(a + KC_SEAL_STORED, a, KC_SEAL_STORED); /* the first one twice */
	check_refused(&f, &v, a);
	memcpy(a, swap, KC_SEAL_STORED);
	check_refused(&f, &v, a);
	free(value);
	free(swap);
	free(a);
	free(b);
	fixture_end(&f);
}

static void a_part_of_a_piece_is_opened(void **state)
{
	struct kv_prng prng = check_seed();
	struct fixture f = fixture("a:" FIRST "\n", "", false);
	uint8_t *value = malloc(LARGE), *stored, *got = malloc(2 * LARGE);
	(void)state;
	kv_prng_fill(&prng, value, LARGE);
	stored = seal(&f, "key", value, LARGE, 0);
	for (unsigned i = 0; i < 300; i++) {
		struct kc_seal_value v = value_of("key", LARGE, 0);
		uint64_t n, drop, len, slice = kv_prng_below(&prng, 3) ? 0 : 1 + kv_prng_below(&prng, 4096);
		struct kc_target to = {.at = got, .slice = slice, .stride = 2 * slice};
		v.piece = kv_prng_below(&prng, 3);
		n = KV_MIN(LARGE - v.piece * KC_SEAL_PIECE, (uint64_t)KC_SEAL_PIECE);
		drop = kv_prng_below(&prng, n + 1);
		len = kv_prng_below(&prng, n - drop + 1);
		memset(got, 0xEE, 2 * LARGE);
		assert_int_equal(kc_open_piece(f.sealer, &v, stored + v.piece * KC_SEAL_STORED, &to, drop, len), 0);
		v.piece--;
		for (uint64_t k = 0; k < len; k++) {
			uint64_t at = slice ? k / slice * to.stride + k % slice : k;
			assert_int_equal(got[at], value[v.piece * KC_SEAL_PIECE + drop + k]);
		}
		assert_int_equal(got[slice ? (len / slice + 1) * to.stride : len], 0xEE);
		v = value_of("key", LARGE, 0); /* a bit of another part */
		stored[KC_SEAL_HEAD + SMALL] ^= 1;
		assert_int_equal(kc_open_piece(f.sealer, &v, stored, &to, 0, SMALL), -KV_ECORRUPT);
		stored[KC_SEAL_HEAD + SMALL] ^= 1;
	}
	free(value);
	free(stored);
	free(got);
	fixture_end(&f);
}

/* ---- keys ---- */

static void keys_are_changed_step_by_step(void **state)
{
	struct fixture old = fixture("a:" FIRST "\n", "", false), reads, writes, done;
	uint8_t value[SMALL] = {1}, got[SMALL], *before, *after;
	struct kc_seal_value v = value_of("k", SMALL, 0);
	(void)state;
	reads = fixture("a:" FIRST "\nb:" SECOND "\n", "", false);
	writes = fixture("b:" SECOND "\na:" FIRST "\n", "", false);
	done = fixture("b:" SECOND "\n", "", false);
	before = seal(&reads, "k", value, SMALL, 0);
	after = seal(&writes, "k", value, SMALL, 0);
	assert_int_equal(open_all(&old, v, before, got), 0);
	assert_int_equal(open_all(&writes, v, before, got), 0);
	assert_int_equal(open_all(&reads, v, after, got), 0);
	assert_int_equal(open_all(&done, v, after, got), 0);
	check_refused(&old, &v, after);
	check_refused(&done, &v, before);
	free(before);
	free(after);
	fixture_end(&old);
	fixture_end(&reads);
	fixture_end(&writes);
	fixture_end(&done);
}

static void bad_files_are_refused_in_a_sentence(void **state)
{
	static const struct {
		const char *text;
		mode_t mode;
		bool names;
		int rc;
		const char *part;
	} bad[] = {
		{"", 0600, false, -KV_EINVAL, "`kv-client make-seal-key FILE` makes one"},
		{"names:" FIRST "\n", 0600, false, -KV_EINVAL, "has no key"},
		{"a:" FIRST "\n", 0644, false, -KV_EDENIED, "chmod"},
		{"a:" FIRST "\n", 0600, true, -KV_EINVAL, "names:HEX"},
		{"a:" FIRST FIRST "\n", 0600, false, -KV_EINVAL, "64 bytes"},
		{"a:00112233445566778899aabbccddeeff\n", 0600, false, -KV_EINVAL, "16 bytes"},
		{"a:" FIRST "\nb:" FIRST "\n", 0600, false, -KV_EINVAL, "twice"},
		{"a:" FIRST "\nnames:" FIRST "\n", 0600, false, -KV_EINVAL, "twice"},
		{"no key\n", 0600, false, -KV_EINVAL, "line 1"},
	};
	struct kc_seal_keys *keys = NULL;
	struct kv_error err;
	(void)state;
	for (unsigned i = 0; i < KV_COUNT(bad); i++) {
		file_write(bad[i].text, bad[i].mode);
		err = (struct kv_error){0};
		assert_int_equal(kc_seal_keys_load(path, "", bad[i].names, &keys, &err), bad[i].rc);
		check_contains(err.text, bad[i].part);
		check_contains(err.text, path);
	}
	unlink(path);
	assert_int_equal(kc_seal_keys_load(path, "", false, &keys, &err), -ENOENT);
	assert_null(keys);
}

static void names_depend_on_key_and_namespace(void **state)
{
	struct fixture f = fixture("a:" FIRST "\nnames:" SECOND "\n", "ns", true), g;
	uint8_t one[KC_SEAL_NAME], other[KC_SEAL_NAME];
	(void)state;
	assert_true(kc_seal_names(f.sealer));
	assert_int_equal(kc_seal_name(f.sealer, (struct kvc_key){"a", 1}, one), 0);
	assert_int_equal(kc_seal_name(f.sealer, (struct kvc_key){"b", 1}, other), 0);
	assert_memory_not_equal(one, other, sizeof(one));
	fixture_end(&f);
	g = fixture("c:404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f\nnames:" SECOND "\n", "ns",
		    true);
	assert_int_equal(kc_seal_name(g.sealer, (struct kvc_key){"a", 1}, other), 0);
	assert_memory_equal(one, other, sizeof(one)); /* names stay when keys change */
	fixture_end(&g);
	g = fixture("a:" FIRST "\nnames:" SECOND "\n", "nt", true);
	assert_int_equal(kc_seal_name(g.sealer, (struct kvc_key){"a", 1}, other), 0);
	assert_memory_not_equal(one, other, sizeof(one));
	fixture_end(&g);
	f = fixture("a:" FIRST "\nnames:" SECOND "\n", "ns", false);
	assert_false(kc_seal_names(f.sealer));
	fixture_end(&f);
}

static int folder_make(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/keys", folder);
	return 0;
}

static int folder_remove(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),
		cmocka_unit_test(lengths_are_told_from_stored_ones),
		cmocka_unit_test(equal_values_are_stored_alike_and_others_are_not),
		cmocka_unit_test(every_flipped_bit_is_noticed),
		cmocka_unit_test(another_place_is_refused),
		cmocka_unit_test(pieces_cannot_be_exchanged),
		cmocka_unit_test(a_part_of_a_piece_is_opened),
		cmocka_unit_test(keys_are_changed_step_by_step),
		cmocka_unit_test(bad_files_are_refused_in_a_sentence),
		cmocka_unit_test(names_depend_on_key_and_namespace),
	};
	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
