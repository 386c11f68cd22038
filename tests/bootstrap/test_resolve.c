/* SPDX-License-Identifier: Apache-2.0 */
/* test_resolve.c -- threads look up names, and no caller waits for them. This file replaces getaddrinfo; it answers
 * when a test allows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"

enum { NAMES = 9, THREADS = 4 };

static sem_t let; /* allows one look-up to end */
static _Atomic unsigned begun, inside, inside_most, ended;
static _Atomic bool unknown; /* there is no such name */
static _Atomic bool signals_taken;

static void address_make(struct addrinfo **list, int family, const char *port)
{
	struct addrinfo *a = calloc(1, sizeof(*a) + sizeof(struct sockaddr_storage));
	struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)), .sin_addr.s_addr = htonl(0x0a000001)};
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(port)), .sin6_addr = {{{0xfd}}}};
	a->ai_family = family;
	a->ai_addr = (void *)(a + 1);
	a->ai_addrlen = family == AF_INET ? sizeof(v4) : sizeof(v6);
	memcpy(a->ai_addr, family == AF_INET ? (void *)&v4 : (void *)&v6, a->ai_addrlen);
	a->ai_next = *list;
	*list = a;
}

void freeaddrinfo(struct addrinfo *list)
{
	while (list) {
		struct addrinfo *a = list;
		list = a->ai_next;
		free(a);
	}
}

static void signals_look(void)
{
	sigset_t now;
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	if (!sigismember(&now, SIGTERM) || !sigismember(&now, SIGINT))
		signals_taken = true;
}

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out)
{
	unsigned n;
	*out = NULL;
	if (hints->ai_flags & AI_NUMERICHOST) {
		if (strcmp(host, "10.0.0.1") != 0)
			return EAI_NONAME;
		address_make(out, AF_INET, port);
		return 0;
	}
	begun++;
	n = ++inside;
	for (unsigned most = inside_most; n > most && !atomic_compare_exchange_weak(&inside_most, &most, n);)
		;
	signals_look();
	while (sem_wait(&let) != 0)
		;
	inside--;
	ended++;
	if (unknown)
		return EAI_NONAME;
	address_make(out, AF_INET, port);
	address_make(out, AF_INET6, port);
	return 0;
}

static const struct kv_hostport cache = {.host = "cache.example", .port = 77};

/* Ask until the answer is no longer "not yet". */
static int answer(struct boot_resolver *r, unsigned i, struct kv_addresses *out, struct kv_error *err)
{
	int rc;
	while ((rc = boot_resolve(r, i, &cache, out, err)) == 1)
		usleep(1000);
	return rc;
}

static void until(_Atomic unsigned *what, unsigned n)
{
	while (*what < n)
		usleep(1000);
}

static int reset(void **state)
{
	(void)state;
	sem_init(&let, 0, 0);
	begun = ended = inside = inside_most = 0;
	unknown = signals_taken = false;
	return 0;
}

static void addresses_need_no_look_up(void **state)
{
	const struct kv_hostport address = {.host = "10.0.0.1", .port = 5}, local = {.host = "LocalHost", .port = 5};
	struct boot_resolver *r = NULL;
	struct kv_addresses a;
	(void)state;
	assert_int_equal(boot_resolver_create(1, &r), 0);
	assert_int_equal(boot_resolve(r, 0, &address, &a, NULL), 0);
	assert_int_equal(a.count, 1);
	assert_int_equal(boot_resolve(r, 0, &local, &a, NULL), 0);
	assert_int_equal(a.count, 2);
	assert_int_equal(a.addr[0].ss_family, AF_INET);
	assert_int_equal(a.addr[1].ss_family, AF_INET6);
	assert_int_equal(begun, 0);
	boot_resolver_destroy(&r);
	assert_null(r);
	boot_resolver_destroy(&r);
}

static void a_name_is_looked_up_once_for_all_who_ask(void **state)
{
	struct boot_resolver *r = NULL;
	struct kv_addresses a;
	(void)state;
	assert_int_equal(boot_resolver_create(1, &r), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(boot_resolve(r, 0, &cache, &a, NULL), 1);
	until(&begun, 1);
	sem_post(&let);
	assert_int_equal(answer(r, 0, &a, NULL), 0);
	assert_int_equal(a.count, 2);
	assert_int_equal(a.addr[0].ss_family, AF_INET); /* though the system said IPv6 first */
	assert_int_equal(ntohs(((struct sockaddr_in *)&a.addr[0])->sin_port), 77);
	assert_int_equal(begun, 1);
	assert_false(signals_taken);
	/* The next connection looks the name up anew. */
	sem_post(&let);
	while (begun == 1)
		(void)boot_resolve(r, 0, &cache, &a, NULL), usleep(1000);
	boot_resolver_destroy(&r);
	until(&ended, 2);
}

/* The place of a server that left is another one's: what was found for it, or is still being looked up, is not given to
 * that one. */
static void what_was_found_is_of_that_name_alone(void **state)
{
	const struct kv_hostport next = {.host = "next.example", .port = 78},
				 last = {.host = "next.example", .port = 79};
	struct boot_resolver *r = NULL;
	struct kv_addresses a;
	(void)state;
	assert_int_equal(boot_resolver_create(1, &r), 0);
	assert_int_equal(boot_resolve(r, 0, &cache, &a, NULL), 1);
	until(&begun, 1);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(boot_resolve(r, 0, &next, &a, NULL), 1);
	for (unsigned i = 0; i < 3; i++)
		sem_post(&let);
	while (boot_resolve(r, 0, &next, &a, NULL) == 1)
		usleep(1000);
	assert_int_equal(ntohs(((struct sockaddr_in *)&a.addr[0])->sin_port), 78);
	while (boot_resolve(r, 0, &last, &a, NULL) == 1)
		usleep(1000);
	assert_int_equal(ntohs(((struct sockaddr_in *)&a.addr[0])->sin_port), 79);
	assert_int_equal(begun, 3);
	boot_resolver_destroy(&r);
}

static void a_name_that_is_not_there_may_be_there_later(void **state)
{
	struct boot_resolver *r = NULL;
	struct kv_addresses a;
	struct kv_error err = {0};
	(void)state;
	unknown = true;
	assert_int_equal(boot_resolver_create(1, &r), 0);
	sem_post(&let);
	assert_int_equal(answer(r, 0, &a, &err), -KV_EPEERDOWN);
	assert_non_null(strstr(err.text, "cannot resolve host 'cache.example'"));
	unknown = false;
	sem_post(&let);
	while (answer(r, 0, &a, &err) != 0)
		;
	assert_int_equal(ended, 2);
	boot_resolver_destroy(&r);
}

/* There are as many threads as allowed, and no more. Closing waits for none of them, and they touch no freed memory
 * (AddressSanitizer watches). */
static void names_that_hang_hold_up_nobody(void **state)
{
	struct boot_resolver *r = NULL;
	struct kv_addresses a;
	(void)state;
	assert_int_equal(boot_resolver_create(NAMES, &r), 0);
	for (unsigned k = 0; k < 50; k++)
		for (unsigned i = 0; i < NAMES; i++)
			assert_int_equal(boot_resolve(r, i, &cache, &a, NULL), 1);
	until(&begun, THREADS);
	assert_int_equal(inside_most, THREADS);
	/* A thread that ends a look-up takes the next name. */
	sem_post(&let);
	until(&begun, THREADS + 1);
	boot_resolver_destroy(&r);
	assert_int_equal(ended, 1);
	for (unsigned i = 0; i < THREADS; i++)
		sem_post(&let);
	until(&ended, THREADS + 1);
	usleep(100000); /* the last thread frees the rest and begins no further look-up */
	assert_int_equal(begun, THREADS + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(addresses_need_no_look_up, reset),
		cmocka_unit_test_setup(a_name_is_looked_up_once_for_all_who_ask, reset),
		cmocka_unit_test_setup(what_was_found_is_of_that_name_alone, reset),
		cmocka_unit_test_setup(a_name_that_is_not_there_may_be_there_later, reset),
		cmocka_unit_test_setup(names_that_hang_hold_up_nobody, reset),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
