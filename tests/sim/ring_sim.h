/* SPDX-License-Identifier: Apache-2.0 */
/* ring_sim.h -- a world with its own time and network, in which the loops of one thread live instead of on io_uring.
 *
 * Link tests/sim/ring_sim.c instead of libring.a. sim_world_create makes the world of this thread; loops created after
 * that are in it. Time stands still while code runs; it moves only in sim_world_step. Everything that happens depends
 * on the seed and on the code alone: the same seed gives the same sim_world_trace. */
#ifndef KVRAIL_TESTS_SIM_RING_SIM_H
#define KVRAIL_TESTS_SIM_RING_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"

struct sim_world;

/* The network, which a test may change at any time. */
struct sim_net {
	uint64_t delay_min_ns, delay_max_ns; /* of each segment, uniform; 20 us to 200 us. Order is kept, as TCP does */
	size_t window_bytes;                 /* in flight and unread in one direction; 64 KiB */
	bool split;                          /* reads and writes are cut at random places; true */
};

struct sim_world *sim_world_create(uint64_t seed);
void sim_world_destroy(struct sim_world **world); /* after its loops; NULL is accepted */

uint64_t sim_world_now(const struct sim_world *world);
const struct kv_clock *sim_world_clock(struct sim_world *world); /* loops take it by themselves */
const struct kv_entropy *
sim_world_entropy(struct sim_world *world); /* "secrets" from the seed: give it to loop_options */
struct kv_prng *sim_world_prng(struct sim_world *world);
struct sim_net *sim_world_net(struct sim_world *world);

/* sim_world_trace -- a hash of all that happened: events, completions and their times. */
uint64_t sim_world_trace(const struct sim_world *world);

/* sim_world_note -- something else that happened, for the trace. */
void sim_world_note(struct sim_world *world, uint64_t what, uint64_t detail);

/* sim_world_at -- run fn(arg) at when_ns (not before now), outside any loop. Equal times run in the order of these
 * calls. */
void sim_world_at(struct sim_world *world, uint64_t when_ns, void (*fn)(void *arg), void *arg);

/* sim_world_step -- advance to the next event or to when a loop wants to wake, but not beyond limit_ns, and run what is
 * due. False: nothing will ever happen (time stands still), or the limit is reached (now is the limit). */
bool sim_world_step(struct sim_world *world, uint64_t limit_ns);

/* sim_run -- turn the loops until none has anything to do, step, and so on, until done(arg) or limit_ns. Returns
 * whether done (done NULL: whether all came to rest for ever before the limit). The order of the loops in each round is
 * random. */
bool sim_run(struct sim_world *world, struct loop *const *loops, unsigned count, bool (*done)(void *arg), void *arg,
	     uint64_t limit_ns);

/* ---- trouble ---- */

/* sim_loop_freeze -- sim_run turns this loop no more, as if its thread got no processor, until it is thawed. */
void sim_loop_freeze(struct loop *loop, bool frozen);
/* sim_loop_crash -- the process of this loop is killed: it is frozen, its connections break, its ports are free. */
void sim_loop_crash(struct sim_world *world, struct loop *loop);

/* sim_local_listen -- a socket for processes of this host, at a port that no other trouble names: it is the process's
 * whose loop accepts there. close() closes a descriptor of the world from any thread. */
int sim_local_listen(struct sim_world *world, int *out_fd, uint16_t *out_port);
/* sim_local_kill -- sim_loop_crash, of such sockets alone. */
void sim_local_kill(struct sim_world *world, const struct loop *loop);

/* sim_sock_kill -- the connection breaks: this end gets ECONNRESET now, the other when the news arrives (never while it
 * is cut). */
void sim_sock_kill(struct sim_world *world, int fd);
/* sim_sock_cut -- nothing arrives in either direction until it is mended (cut false); then everything does, in order.
 * An end with a user timeout gets ETIMEDOUT when the cut lasts that long. */
void sim_sock_cut(struct sim_world *world, int fd, bool cut);
/* The same for all present connections to a listening port; a port that is cut also answers no connect until it is
 * mended. */
unsigned sim_port_kill(struct sim_world *world, uint16_t port);
unsigned sim_port_cut(struct sim_world *world, uint16_t port, bool cut);

/* ---- a descriptor for a simulated completion queue: readable exactly while it is set ---- */

int sim_flag_open(struct sim_world *world);
void sim_flag_set(struct sim_world *world, int fd, bool readable);
void sim_flag_close(struct sim_world *world, int fd);

#endif
