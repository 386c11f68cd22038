/* SPDX-License-Identifier: Apache-2.0 */
/* uring.c -- a host with an event loop of its own, on io_uring: it polls the descriptor of a queue of KVRail in the
 * same ring in which it does its own reads, here of /dev/zero. Link with -luring.
 *
 *   uring HOST:PORT     (0: all blocks went there and back; 1: something failed, or no io_uring here; 2: wrong usage)
 */
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kvrail/kvclient.h>

enum { ITEMS = 32, BLOCK = 64 << 10, QUEUE = 1, FILE_READ = 2 };

static struct kvc_item item[ITEMS];
static char name[ITEMS][32], page[4096];

/* One poll gives one wake-up: poll again after each reap. (A multishot poll is edge-triggered: a host with one must
 * reap until kvc_reap returns 0.) */
static int ask(struct io_uring *ring, int fd, unsigned what)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	if (!sqe)
		return -1;
	if (what == QUEUE)
		io_uring_prep_poll_add(sqe, fd, POLLIN);
	else
		io_uring_prep_read(sqe, fd, page, sizeof(page), 0);
	io_uring_sqe_set_data(sqe, (void *)(uintptr_t)what);
	return io_uring_submit(ring) == 1 ? 0 : -1;
}

/* Wait for a completion of the queue, and serve the host's reads until then. */
static int queue_wait(struct io_uring *ring, int queue_fd, int file)
{
	struct io_uring_cqe *cqe;
	int rc = ask(ring, queue_fd, QUEUE);
	while (rc == 0) {
		uintptr_t what;
		rc = io_uring_wait_cqe(ring, &cqe);
		if (rc == -EINTR)
			rc = 0;
		else if (rc == 0) {
			what = (uintptr_t)io_uring_cqe_get_data(cqe);
			io_uring_cqe_seen(ring, cqe);
			if (what == QUEUE)
				return 0;
			rc = ask(ring, file, FILE_READ); /* here the host does its own work */
		}
	}
	return -1;
}

/* Returns the result of the batch, or -1. */
static int finish(struct io_uring *ring, struct kvc_queue *queue, int file, int64_t id)
{
	struct kvc_completion done;
	int n = id < 0 ? (int)id : 0;
	while (n == 0)
		n = queue_wait(ring, kvc_queue_fd(queue), file) < 0 ? -1 : kvc_reap(queue, &done, 1);
	if (n > 0)
		n = done.result;
	if (n < 0)
		fprintf(stderr, "%s\n", n == -1 ? "the ring failed" : kvc_strerror(n));
	return n;
}

static int host_run(struct kvc_queue *queue, unsigned char *blocks)
{
	int file = open("/dev/zero", O_RDONLY | O_CLOEXEC), rc = -1;
	struct io_uring ring;
	if (io_uring_queue_init(8, &ring, 0) < 0) {
		fprintf(stderr,
			"there is no io_uring here: a seccomp profile or kernel.io_uring_disabled forbids it\n");
	} else {
		rc = file < 0 ? -1 : ask(&ring, file, FILE_READ);
		if (rc == 0)
			rc = finish(&ring, queue, file, kvc_submit_put(queue, item, ITEMS, NULL, 0));
		memset(blocks, 0, (size_t)ITEMS * BLOCK);
		if (rc == 0)
			rc = finish(&ring, queue, file, kvc_submit_get(queue, item, ITEMS, NULL, 0));
		for (unsigned i = 0; i < ITEMS && rc == 0; i++)
			rc = blocks[(size_t)i * BLOCK] == i + 1 ? 0 : -1;
		io_uring_queue_exit(&ring);
	}
	if (file >= 0)
		close(file);
	return rc;
}

int main(int argc, char **argv)
{
	const char *servers[] = {argc > 1 ? argv[1] : ""};
	struct kvc_options options = {.size = sizeof(options), .servers = servers, .num_servers = 1, .log_level = 2};
	unsigned char *blocks = aligned_alloc(4096, (size_t)ITEMS * BLOCK);
	struct kvc_queue *queue = NULL;
	struct kvc_pool *pool = NULL;
	struct kv_error err;
	int rc = -1;
	if (argc < 2 || !blocks) {
		fprintf(stderr, "usage: uring HOST:PORT\n");
		free(blocks);
		return 2;
	}
	kvc_program_setup();
	for (unsigned i = 0; i < ITEMS; i++) {
		int len = snprintf(name[i], sizeof(name[i]), "example/uring/%u", i);
		memset(blocks + (size_t)i * BLOCK, (int)i + 1, BLOCK);
		item[i] = (struct kvc_item){
			.key = {name[i], (size_t)len}, .data = blocks + (size_t)i * BLOCK, .len = BLOCK};
	}
	if (kvc_pool_open(&options, &pool, &err) < 0 || kvc_queue_open(pool, NULL, &queue, &err) < 0)
		fprintf(stderr, "%s\n", err.text);
	else
		rc = host_run(queue, blocks);
	kvc_queue_close(&queue);
	kvc_pool_close(&pool);
	free(blocks);
	printf(rc < 0 ? "failed\n" : "%d blocks went there and back\n", (int)ITEMS);
	return rc < 0;
}
