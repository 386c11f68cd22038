/* SPDX-License-Identifier: Apache-2.0 */
/* ready.c -- whether clients may come, for /readyz and kvrail_ready: not while a server of a cluster lacks the members,
 * nor after a drain said goodbye. While a drain pushes values they may, since Kubernetes treats a pod that is not ready
 * as gone. */
#include "kvserver/http/pages.h"
#include "kvserver/member/membership.h"

bool page_ready(const struct page_source *from, const char **why)
{
	const struct membership_now *cluster = from->cluster;
	*why = NULL;
	if (!from->server)
		*why = "starting: the memory for values is not ready";
	else if (from->draining)
		*why = "draining: the server says goodbye to its clients";
	else if (cluster && !cluster->ready)
		*why = "starting: --members has not named the members yet, and no view was saved";
	return *why == NULL;
}
