/* SPDX-License-Identifier: Apache-2.0 */
/* ready.c -- whether clients may come, as /readyz and kvrail_ready say. They may not while a server of a cluster does
 * not know the members, nor once a drain says goodbye. While a drain hands values over they may, since Kubernetes takes
 * a pod that is not ready for gone. */
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
