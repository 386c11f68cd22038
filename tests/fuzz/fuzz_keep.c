/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_keep.c -- the index of kept memory: any bytes are refused with a sentence, or fill a store that can be used.
 *
 * Each input is read twice: as it is, and with checksums that are made to agree, since otherwise nearly every mutation
 * ends at one. The first byte chooses the policy, the rest is the file. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/shake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILE_HEAD = 16, PART_HEAD = 24, STAMP_AT = FILE_HEAD + PART_HEAD };

/* As part_sum of store/keep_file.c, for parts in any order of shard 0 and of the whole file. */
static void sums_mend(uint8_t *file, size_t size)
{
	uint64_t numbers[2] = {0, 0}, seed = 0;
	for (size_t at = FILE_HEAD; at + PART_HEAD <= size;) {
		uint32_t shard;
		uint64_t bytes, sum;
		memcpy(&shard, file + at + 12, sizeof(shard));
		memcpy(&bytes, file + at + 16, sizeof(bytes));
		if (bytes > size - at - PART_HEAD)
			return;
		sum = kv_hash_key(file + at + 8, PART_HEAD - 8 + bytes,
				  seed + numbers[shard != 0]++ + ((uint64_t)shard << 32));
		memcpy(file + at, &sum, sizeof(sum));
		if (at == FILE_HEAD && STAMP_AT + 8 <= size)
			seed = kv_get64(file + STAMP_AT);
		at += PART_HEAD + bytes;
	}
}

static void use(const uint8_t *file, size_t size, const struct evict_policy *policy)
{
	static uint8_t memory[SHAKE_LIMIT];
	static struct store s;
	struct keep_rest rest = {0};
	struct keep_in *in = NULL;
	struct keep_reader *r = NULL;
	struct keep_head head;
	struct kv_error err = {0};
	char path[32];
	int fd = memfd_create("index", 0), rc;
	shake_check(fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, file, size) == (ssize_t)size, "no file");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = keep_open(path, &in, &head, &err);
	shake_check(rc <= 0 && (rc == 0 || err.text[0]), "a file is refused without a reason");
	shake_open(&s, memory, policy);
	if (rc == 0) {
		struct keep_clock clock = keep_clock_of(&head, SHAKE_NOW, 3 * SHAKE_NOW);
		shake_check(keep_reader_open(in, 0, &r, &err) == 0, "no memory for a reader");
		rc = keep_restore(r, &clock, &s, &rest, &err);
		shake_check(rc == 0 || err.text[0], "a shard is refused without a reason");
	}
	if (rc == 0) {
		shake(&s);
		keep_rest_tick(&s, &rest, KV_NEVER);
		keep_rest_held_end(&s, &rest);
		shake(&s);
	}
	keep_rest_end(&s, &rest);
	store_fini(&s);
	keep_reader_close(&r);
	keep_close(&in);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *mended;
	unsigned n = 0;
	if (size == 0)
		return 0;
	while (evict_policies[n])
		n++;
	use(data + 1, size - 1, evict_policies[data[0] % n]);
	mended = malloc(size);
	shake_check(mended != NULL, "no memory");
	memcpy(mended, data, size);
	sums_mend(mended + 1, size - 1);
	use(mended + 1, size - 1, evict_policies[data[0] % n]);
	free(mended);
	return 0;
}
