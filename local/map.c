/* SPDX-License-Identifier: Apache-2.0 */
/* map.c -- map memory of the other side: the arena, which this side only reads, or the landing area.
 *
 * Invariant: the size of mapped memory is sealed, so that no access raises SIGBUS. A read-only mapping of the arena
 * stays so: its seal (F_SEAL_FUTURE_WRITE) refuses mprotect.
 *
 * A core dump would contain it, so it is left out. */
#include <sys/mman.h>

#include "host/host.h"
#include "local/local.h"

int local_map(int fd, uint64_t len_bytes, bool writable, void **out, struct kv_error *err)
{
	int rc = kv_memfd_check(fd, len_bytes, err);
	if (rc == 0)
		rc = kv_memfd_map(fd, len_bytes, writable, out, err);
	if (rc == 0)
		(void)madvise(*out, len_bytes, MADV_DONTDUMP);
	return rc;
}

void local_unmap(void *base, uint64_t len_bytes)
{
	if (base)
		munmap(base, len_bytes);
}
