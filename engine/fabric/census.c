/* SPDX-License-Identifier: Apache-2.0 */
/* census.c -- the process's count of open endpoints per device: limits apply to it, and no engine knows the
 * others. */
#include "engine/fabric/private.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CENSUS_ROWS = 64 };

static pthread_mutex_t census_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char domain[KV_NAME_MAX];
	int count;
} census[CENSUS_ROWS];

/* The row of a domain, else a free one if `make`, else NULL. */
static int *census_row(const char *domain, bool make)
{
	int *empty = NULL;
	for (unsigned i = 0; i < CENSUS_ROWS; i++) {
		if (census[i].count > 0 && strcmp(census[i].domain, domain) == 0)
			return &census[i].count;
		if (census[i].count == 0 && !empty && make) {
			empty = &census[i].count;
			snprintf(census[i].domain, sizeof(census[i].domain), "%s", domain);
		}
	}
	return empty;
}

void fab_census_add(const char *domain, int delta)
{
	pthread_mutex_lock(&census_lock);
	int *row = census_row(domain, delta > 0);
	if (row)
		*row = KV_MAX(0, *row + delta);
	pthread_mutex_unlock(&census_lock);
}

void fab_census_fork(bool hold)
{
	if (hold)
		pthread_mutex_lock(&census_lock);
	else
		pthread_mutex_unlock(&census_lock);
}

unsigned fab_census(const char *domain)
{
	pthread_mutex_lock(&census_lock);
	int *row = census_row(domain, false);
	unsigned count = row ? (unsigned)*row : 0;
	pthread_mutex_unlock(&census_lock);
	return count;
}
