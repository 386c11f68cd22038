/* SPDX-License-Identifier: Apache-2.0 */
/* ring_files.c -- threads that read and write files, since regular files and disks have no readiness to wait for.
 *
 * Two threads take transfers from one queue: reads before writes, but a write after READS_RUN of them. They touch
 * nothing of the loop: an ended transfer is in the list `ended`, and the bell wakes the ring. */
#include "loop/ring_files.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

enum { THREADS = 2, READS_RUN = 8 };

struct ring_files {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct kv_list reads, writes, ended; /* ring_op.node */
	unsigned threads;
	unsigned reads_run; /* since the last write */
	bool stop;
	int bell_fd;
	pthread_t thread[THREADS];
};

static struct ring_op *next(struct ring_files *f)
{
	struct kv_list *n;
	bool write;
	while (!f->stop && kv_list_empty(&f->reads) && kv_list_empty(&f->writes))
		pthread_cond_wait(&f->more, &f->lock);
	if (f->stop)
		return NULL;
	write = kv_list_empty(&f->reads) || (f->reads_run >= READS_RUN && !kv_list_empty(&f->writes));
	f->reads_run = write ? 0 : f->reads_run + 1;
	n = kv_list_pop(write ? &f->writes : &f->reads);
	return KV_LIST_ENTRY(n, struct ring_op, node);
}

static void transfer(struct ring_op *op)
{
	const struct iovec from = {op->in, op->len};
	ssize_t n;
	do
		n = op->kind == RING_READ_AT ? pread(op->fd, op->in, op->len, (off_t)op->at)
					     : pwritev2(op->fd, &from, 1, (off_t)op->at, op->durable ? RWF_DSYNC : 0);
	while (n < 0 && errno == EINTR);
	op->result = n < 0 ? -errno : n;
}

static void *run(void *arg)
{
	const uint64_t one = 1;
	struct ring_files *f = arg;
	struct ring_op *op;
	pthread_mutex_lock(&f->lock);
	while ((op = next(f)) != NULL) {
		pthread_mutex_unlock(&f->lock);
		transfer(op);
		pthread_mutex_lock(&f->lock);
		kv_list_add_tail(&f->ended, &op->node);
		ssize_t n = write(f->bell_fd, &one, sizeof(one)); /* fails only with 2^64 - 2 bells pending */
		(void)n;
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

static int create(int bell_fd, struct ring_files **out)
{
	struct ring_files *f = calloc(1, sizeof(*f));
	int rc = f ? 0 : ENOMEM;
	if (!f)
		return -ENOMEM;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->more, NULL);
	kv_list_init(&f->reads);
	kv_list_init(&f->writes);
	kv_list_init(&f->ended);
	f->bell_fd = bell_fd;
	while (rc == 0 && f->threads < THREADS) {
		rc = pthread_create(&f->thread[f->threads], NULL, run, f);
		f->threads += rc == 0;
	}
	*out = f;
	if (f->threads > 0) /* one does as well */
		return 0;
	ring_files_destroy(out);
	return -rc;
}

int ring_files_submit(struct ring_files **files, int bell_fd, struct ring_op *op)
{
	int rc = *files ? 0 : create(bell_fd, files);
	struct ring_files *f = *files;
	if (rc)
		return rc;
	pthread_mutex_lock(&f->lock);
	kv_list_add_tail(op->kind == RING_READ_AT ? &f->reads : &f->writes, &op->node);
	pthread_cond_signal(&f->more);
	pthread_mutex_unlock(&f->lock);
	return 0;
}

void ring_files_ended(struct ring_files *f, struct kv_list *out)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	kv_list_splice_tail(out, &f->ended);
	pthread_mutex_unlock(&f->lock);
}

void ring_files_destroy(struct ring_files **files)
{
	struct ring_files *f = *files;
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	pthread_cond_broadcast(&f->more);
	pthread_mutex_unlock(&f->lock);
	for (unsigned i = 0; i < f->threads; i++)
		pthread_join(f->thread[i], NULL);
	pthread_cond_destroy(&f->more);
	pthread_mutex_destroy(&f->lock);
	free(f);
	*files = NULL;
}
