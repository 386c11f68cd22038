/* SPDX-License-Identifier: Apache-2.0 */
/* epoll.c -- a host with an event loop of its own, on epoll: a queue of KVRail is one more descriptor. A timer stands
 * for the host's other work. Only epoll_wait blocks.
 *
 *   epoll HOST:PORT     (0: every batch went there and back; 1: something failed; 2: wrong usage) */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <kvrail/kvclient.h>

enum { BATCHES = 8, ITEMS = 16, BLOCK = 64 << 10 };

/* The library uses a batch from its submission until it is reaped: items, keys and blocks must stay in place. */
struct batch {
	struct kvc_item item[ITEMS];
	char name[ITEMS][32];
	unsigned char *block; /* ITEMS of BLOCK bytes */
};

static struct batch batch[BATCHES];

static void batch_fill(unsigned b, unsigned char *block)
{
	batch[b].block = block;
	memset(block, (int)b + 1, (size_t)ITEMS * BLOCK);
	for (unsigned i = 0; i < ITEMS; i++) {
		int len = snprintf(batch[b].name[i], sizeof(batch[b].name[i]), "example/epoll/%u/%u", b, i);
		batch[b].item[i] = (struct kvc_item){
			.key = {batch[b].name[i], (size_t)len}, .data = block + (size_t)i * BLOCK, .len = BLOCK};
	}
}

/* Each completion is one step of its batch: PUT -> GET -> DELETE. Returns 1 after the last step, 0, or a code. */
static int step(struct kvc_queue *queue, const struct kvc_completion *done)
{
	struct batch *b = &batch[done->tag];
	int64_t id = 0;
	if (done->result < 0) {
		fprintf(stderr, "batch %" PRIu64 ", operation %s: %s\n", done->tag, kvc_opname(done->op),
			kvc_strerror(done->result));
		return done->result;
	}
	if (done->op == KVC_OP_DELETE)
		return 1;
	if (done->op == KVC_OP_GET && b->block[ITEMS * BLOCK - 1] != done->tag + 1)
		return -KV_ECORRUPT;
	if (done->op == KVC_OP_PUT) {
		memset(b->block, 0, (size_t)ITEMS * BLOCK);
		id = kvc_submit_get(queue, b->item, ITEMS, NULL, done->tag);
	} else {
		id = kvc_submit_delete(queue, b->item, ITEMS, NULL, done->tag);
	}
	return id < 0 ? (int)id : 0; /* (-KV_EBUSY: the queue is full; here it has room for all batches) */
}

/* Reap all completions: the descriptor is readable again if there are more. Returns the number of finished batches. */
static int reap(struct kvc_queue *queue)
{
	struct kvc_completion done[4];
	int n = kvc_reap(queue, done, 4), over = 0;
	for (int i = 0; i < n; i++) {
		int rc = step(queue, &done[i]);
		if (rc < 0)
			return rc;
		over += rc;
	}
	return n < 0 ? n : over;
}

static int host_run(struct kvc_queue *queue)
{
	struct epoll_event on_queue = {.events = EPOLLIN, .data.u32 = 1}, on_timer = {.events = EPOLLIN}, event;
	struct itimerspec often = {{0, 10000000}, {0, 10000000}};
	int epoll = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	uint64_t ticks, worked = 0;
	int rc = 0, over = 0;
	if (epoll < 0 || timer < 0 || timerfd_settime(timer, 0, &often, NULL) < 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &on_timer) < 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, kvc_queue_fd(queue), &on_queue) < 0) {
		perror("epoll");
		rc = -1;
	}
	for (unsigned b = 0; b < BATCHES && rc >= 0; b++) {
		int64_t id = kvc_submit_put(queue, batch[b].item, ITEMS, NULL, b);
		rc = id < 0 ? (int)id : 0;
	}
	while (rc >= 0 && over < BATCHES) {
		if (epoll_wait(epoll, &event, 1, -1) < 1)
			continue; /* a signal */
		if (event.data.u32 == 1)
			over += rc = reap(queue);
		else if (read(timer, &ticks, sizeof(ticks)) > 0)
			worked += ticks; /* here the host does its own work */
	}
	if (rc >= 0)
		printf("the host worked %" PRIu64 " times meanwhile\n", worked);
	if (epoll >= 0)
		close(epoll);
	if (timer >= 0)
		close(timer);
	return rc;
}

int main(int argc, char **argv)
{
	const char *servers[] = {argc > 1 ? argv[1] : ""};
	struct kvc_options options = {.size = sizeof(options), .servers = servers, .num_servers = 1, .log_level = 2};
	unsigned char *blocks = aligned_alloc(4096, (size_t)BATCHES * ITEMS * BLOCK);
	struct kvc_queue *queue = NULL;
	struct kvc_pool *pool = NULL;
	struct kvc_mem *mem = NULL;
	struct kv_error err;
	int rc = -1;
	if (argc < 2) {
		fprintf(stderr, "usage: epoll HOST:PORT\n");
		free(blocks);
		return 2;
	}
	kvc_program_setup();
	for (unsigned b = 0; b < BATCHES && blocks; b++)
		batch_fill(b, blocks + (size_t)b * ITEMS * BLOCK);
	if (!blocks)
		fprintf(stderr, "no memory\n");
	else if (kvc_pool_open(&options, &pool, &err) < 0 ||
		 kvc_register(pool, blocks, (uint64_t)BATCHES * ITEMS * BLOCK, &mem, &err) < 0 ||
		 kvc_queue_open(pool, NULL, &queue, &err) < 0)
		fprintf(stderr, "%s\n", err.text);
	else
		rc = host_run(queue);
	kvc_queue_close(&queue); /* afterwards nothing uses the batches, whatever failed */
	kvc_pool_close(&pool);
	free(blocks);
	printf(rc < 0 ? "failed\n" : "%d batches went there and back\n", (int)BATCHES);
	return rc < 0;
}
