/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c -- files for areas that outlive their process, and who still reads them.
 *
 * Other processes map an area through descriptors that can only read: each has an open file of its own, with a read
 * lock (of the open file, F_OFD_SETLK) that the owner placed before it passed it on. The kernel drops the lock with the
 * last descriptor and mapping of that open file, also when the process dies. The lock's place, far behind any byte, is
 * the generation of the owner: so a later owner knows whether readers of its predecessors are left. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/base.h"
#include "host/memory.h"
#include "host/pages.h"

enum { PATH_CAP = 4096, OWN = S_IRUSR | S_IWUSR };

#define LOCKS_FROM (INT64_C(1) << 62)

static int kept_fail(const char *path, int rc, struct kv_error *err)
{
	if (rc == -ENOSPC || rc == -ENOMEM || rc == -EDQUOT)
		return kv_fail(err, -KV_ENOMEM,
			       "%.200s: its file system has no such amount of memory; ask for less, or make it larger "
			       "(mount -o remount,size=..., or vm.nr_hugepages for hugetlbfs)",
			       path);
	if (rc == -ENOENT)
		return kv_fail(err, rc, "%.200s: its folder does not exist; make it first", path);
	if (rc == -EACCES || rc == -EPERM || rc == -EROFS)
		return kv_fail(err, rc,
			       "%.200s: this user may not write there (%s); give it the rights, or another path", path,
			       kv_strerror(rc));
	return kv_fail(err, rc, "%.200s: %s", path, kv_strerror(rc));
}

/* The size of a file for so many bytes there; 0: not of memory. */
static uint64_t size_there(int fd, uint64_t len_bytes)
{
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0 || (fs.f_type != TMPFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC))
		return 0;
	return kv_align_up(len_bytes, KV_MAX((uint64_t)fs.f_bsize, PAGE_2M));
}

/* Open the file, or make it (O_CREAT), and check that it is this user's. Returns the descriptor, or a code with *err.
 */
static int file_open(const char *path, int make, struct stat *st, struct kv_error *err)
{
	int fd = open(path, make | O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, OWN), rc;
	if (fd < 0 && errno == ENOENT && !make)
		return kv_fail(err, -KV_ENOTFOUND, "%.200s: there is no such file", path);
	if (fd < 0)
		return kept_fail(path, -errno, err);
	rc = fstat(fd, st) < 0 ? -errno : 0;
	if (rc == 0 && (!S_ISREG(st->st_mode) || st->st_uid != geteuid()))
		rc = kv_fail(err, -KV_EINVAL, "%.200s is no regular file of this user: remove it, or give another path",
			     path);
	else if (rc == 0 && (st->st_mode & 0777) != OWN && fchmod(fd, OWN) < 0)
		rc = -errno;
	if (rc == 0)
		return fd;
	close(fd);
	return rc == -KV_EINVAL ? rc : kept_fail(path, rc, err);
}

static int pages_make(int fd, uint64_t from, uint64_t to)
{
	int rc;
	do /* work that io_uring leaves to this thread interrupts it as well */
		rc = fallocate(fd, 0, (off_t)from, (off_t)(to - from)) < 0 ? -errno : 0;
	while (rc == -EINTR);
	return rc;
}

/* All pages at once: with none left, a later touch would raise SIGBUS. */
static int file_fill(int fd, const char *path, uint64_t size, const struct stat *st, struct kv_error *err)
{
	int rc = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
	if (rc == 0 && (uint64_t)st->st_blocks * 512 < size)
		rc = pages_make(fd, 0, size);
	return rc ? kept_fail(path, rc, err) : 0;
}

int kv_kept_open(const char *path, uint64_t len_bytes, bool anew, int *out_fd, bool *out_fresh, struct kv_error *err)
{
	struct stat st;
	uint64_t size;
	int fd = file_open(path, O_CREAT, &st, err), rc;
	if (fd < 0)
		return fd;
	size = size_there(fd, len_bytes);
	if (size == 0) {
		if (st.st_size == 0)
			unlink(path);
		close(fd);
		return kv_fail(err, -KV_EINVAL,
			       "%.200s is not in memory: give a path on tmpfs (as /dev/shm) or hugetlbfs; a disk would "
			       "get every value that is stored",
			       path);
	}
	if (st.st_size != 0 && (anew || (uint64_t)st.st_size != size)) {
		close(fd);
		fd = unlink(path) < 0 ? kept_fail(path, -errno, err) : file_open(path, O_CREAT, &st, err);
		if (fd < 0)
			return fd;
	}
	rc = file_fill(fd, path, size, &st, err);
	if (rc) {
		unlink(path);
		close(fd);
		return rc;
	}
	*out_fd = fd;
	*out_fresh = st.st_size == 0;
	return 0;
}

int kv_kept_find(const char *path, int *out_fd, struct kv_error *err)
{
	struct stat st;
	int fd = file_open(path, 0, &st, err);
	if (fd < 0)
		return fd;
	if (size_there(fd, 1) == 0) {
		close(fd);
		return kv_fail(err, -KV_EINVAL, "%.200s is not in memory", path);
	}
	*out_fd = fd;
	return 0;
}

int kv_kept_resize(int fd, const char *path, uint64_t len_bytes, struct kv_error *err)
{
	struct stat st;
	int rc = fstat(fd, &st) < 0 ? kept_fail(path, -errno, err) : 0;
	if (rc == 0)
		rc = file_fill(fd, path, size_there(fd, len_bytes), &st, err);
	if (rc)
		(void)!ftruncate(fd, st.st_size);
	return rc;
}

int kv_kept_make(const char *path, uint64_t len_bytes, int *out_fd, struct kv_error *err)
{
	struct stat st;
	uint64_t size;
	int fd, rc = unlink(path) < 0 && errno != ENOENT ? -errno : 0;
	if (rc)
		return kept_fail(path, rc, err);
	fd = file_open(path, O_CREAT | O_EXCL, &st, err);
	if (fd < 0)
		return fd;
	size = size_there(fd, len_bytes);
	if (size == 0)
		rc = kv_fail(err, -KV_EINVAL, "%.200s is not in memory", path);
	else if (ftruncate(fd, (off_t)size) < 0)
		rc = kept_fail(path, -errno, err);
	if (rc) {
		unlink(path);
		close(fd);
		return rc;
	}
	*out_fd = fd;
	return 0;
}

int kv_kept_give(int fd, const char *path, uint64_t from, uint64_t to, struct kv_error *err)
{
	int rc = from < to ? pages_make(fd, from, to) : 0;
	return rc ? kept_fail(path, rc, err) : 0;
}

void kv_kept_release(int fd, uint64_t from, uint64_t to)
{
	uint64_t page = kv_kept_page(fd);
	from = kv_align_up(from, page);
	to = kv_align_down(to, page);
	if (from < to)
		(void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from));
}

uint64_t kv_kept_page(int fd)
{
	struct stat st;
	return KV_MAX(fstat(fd, &st) == 0 ? (uint64_t)st.st_blksize : 0, PAGE_2M);
}

uint64_t kv_kept_bytes(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

int kv_kept_lock(const char *path, int *out_fd, struct kv_error *err)
{
	char name[PATH_CAP];
	int fd, rc;
	if (snprintf(name, sizeof(name), "%s.lock", path) >= PATH_CAP)
		return kept_fail(path, -ENAMETOOLONG, err);
	fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, OWN);
	if (fd < 0)
		return kept_fail(name, -errno, err);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		*out_fd = fd;
		return 0;
	}
	rc = errno == EWOULDBLOCK ? kv_fail(err, -KV_EEXIST,
					    "another server uses %.200s (it has locked %.200s): stop it, give another "
					    "path, or take its place with --handover",
					    path, name)
				  : kept_fail(name, -errno, err);
	close(fd);
	return rc;
}

/* ---- readers ---- */

static struct flock lock_of(short type, uint64_t from, uint64_t count)
{
	return (struct flock){.l_type = type,
			      .l_whence = SEEK_SET,
			      .l_start = LOCKS_FROM + (off_t)(from & INT32_MAX),
			      .l_len = (off_t)count};
}

int kv_kept_reader(const struct kv_area *area, uint64_t generation)
{
	struct flock lock = lock_of(F_RDLCK, generation, 1);
	char name[32];
	int fd, rc;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", area->fd);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

bool kv_kept_read(int fd, uint64_t generation)
{
	struct flock lock = lock_of(F_WRLCK, 0, KV_MIN(generation, (uint64_t)INT32_MAX));
	return generation > 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
