/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_limits.c -- which limit of the machine is short, said before and after it bites.
 *
 * Providers answer a short limit with ENOMEM, EINVAL or an abort in a later call. So what can be compared is compared
 * first (files, locked memory, endpoints per device), and what only the provider knows is turned into a sentence that
 * names the usual culprits of that provider. The census of endpoints is the one piece of process-wide state: limits are
 * per process and device, and nothing else knows of the other engines. */
#include "engine/fabric_inside.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { CENSUS_ROWS = 64, FD_MARGIN = 16, CAP_IPC_LOCK_BIT = 14 };

static pthread_mutex_t census_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	char domain[KV_NAME_MAX];
	int count;
} census[CENSUS_ROWS];

/* The row of a domain, else a free one if wanted, else NULL. Under the lock. */
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

unsigned fab_census(const char *domain)
{
	pthread_mutex_lock(&census_lock);
	int *row = census_row(domain, false);
	unsigned count = row ? (unsigned)*row : 0;
	pthread_mutex_unlock(&census_lock);
	return count;
}

static unsigned files_open(void)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/fd");
	if (!d)
		return 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n > 3 ? n - 3 : 0; /* two names of directories, and the descriptor of this walk */
}

/* Whether RLIMIT_MEMLOCK does not apply to us. */
static bool may_lock_any(void)
{
	char line[128];
	uint64_t caps = 0;
	FILE *f = fopen("/proc/self/status", "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %" SCNx64, &caps) == 1)
			break;
	fclose(f);
	return caps >> CAP_IPC_LOCK_BIT & 1;
}

static int check_files(const struct fab_device *device, const struct fab_quirk *quirk, struct kv_error *err)
{
	struct rlimit rl;
	unsigned used = files_open();
	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur == RLIM_INFINITY ||
	    used + quirk->fds + FD_MARGIN <= rl.rlim_cur)
		return 0;
	/* A limit may have been lowered below what was open already. */
	return kv_fail(err, -KV_ELIMIT,
		       "%s: an endpoint needs about %u files, and this process has %u open and may have %" PRIu64
		       "; raise `ulimit -n` (LimitNOFILE= in systemd)",
		       device->provider, quirk->fds, used, (uint64_t)rl.rlim_cur);
}

static int check_memlock(const struct fab_device *device, const struct fab_quirk *quirk, const struct kv_log *log,
			 struct kv_error *err)
{
	struct rlimit rl;
	if (!quirk->pins_memory || getrlimit(RLIMIT_MEMLOCK, &rl) || rl.rlim_cur == RLIM_INFINITY || may_lock_any())
		return 0;
	if (rl.rlim_cur < quirk->memory_bytes)
		return kv_fail(err, -KV_ELIMIT,
			       "%s pins about %" PRIu64
			       " MiB per endpoint, besides what is registered, and the locked-memory limit is %" PRIu64
			       " KiB; raise it with `ulimit -l unlimited` (LimitMEMLOCK=infinity in systemd, --ulimit "
			       "memlock=-1 in docker)",
			       device->provider, quirk->memory_bytes >> 20, (uint64_t)rl.rlim_cur >> 10);
	kv_warn(log,
		"%s: the locked-memory limit is %" PRIu64
		" MiB; registrations beyond it will fail (ulimit -l unlimited)",
		device->provider, (uint64_t)rl.rlim_cur >> 20);
	return 0;
}

int fab_limits_check(const struct fab_device *device, const struct fab_quirk *quirk, const struct kv_log *log,
		     struct kv_error *err)
{
	unsigned open = fab_census(device->domain);
	int rc = check_files(device, quirk, err);
	if (rc == 0)
		rc = check_memlock(device, quirk, log, err);
	if (rc == 0 && device->ep_max && open >= device->ep_max)
		rc = kv_fail(err, -KV_ELIMIT,
			     "device %s has %" PRIu64
			     " endpoints and this process has %u of them open; use fewer clients, loops or rails",
			     device->domain, device->ep_max, open);
	if (rc == 0 && device->cq_max && open >= device->cq_max)
		rc = kv_fail(
			err, -KV_ELIMIT,
			"device %s has %" PRIu64
			" completion queues and this process has %u of them open; use fewer clients, loops or rails",
			device->domain, device->cq_max, open);
	return rc;
}

static bool exhaustion(int rc)
{
	switch (-rc) {
	case FI_ENOMEM:
	case FI_ENOSPC:
	case FI_EMFILE:
	case FI_ENOBUFS:
	case FAB_ENOMR:
	case ENFILE:
	case FI_EAGAIN:
		return true;
	case FI_EINVAL: /* efa 1.17 hides every errno behind it */
		return true;
	default:
		return false;
	}
}

int fab_limits_fail(const struct fab *fab, const char *what, int rc, struct kv_error *err)
{
	const char *prov = fab->info->fabric_attr->prov_name, *domain = fab->info->domain_attr->name;
	unsigned open = fab_census(domain);
	if (!exhaustion(rc))
		return kv_fail(err, -KV_EPROVIDER, "%s on %s (%s): %s", what, domain, prov, fi_strerror(-rc));
	if (rc == -FI_EMFILE || rc == -ENFILE)
		return kv_fail(err, -KV_ELIMIT, "%s on %s (%s): too many open files; raise `ulimit -n`", what, domain,
			       prov);
	if (fab->quirk->pins_memory)
		return kv_fail(err, -KV_ELIMIT,
			       "%s on %s (%s): %s, with %u endpoints of this process open (device: %zu) and depths "
			       "%zu/%zu/%u; short is one of: queue pairs or their "
			       "memory on the device (use fewer clients or rails), locked memory (ulimit -l "
			       "unlimited), huge pages (vm.nr_hugepages)",
			       what, domain, prov, fi_strerror(-rc), open, fab->info->domain_attr->ep_cnt,
			       fab->info->tx_attr->size, fab->info->rx_attr->size, fab->cq_wanted);
	return kv_fail(err, -KV_ELIMIT,
		       "%s on %s (%s): %s, with %u endpoints of this process open; about %" PRIu64
		       " MiB of memory per endpoint are needed (smaller with FI_OFI_RXM_BUFFER_SIZE and "
		       "FI_OFI_RXM_MSG_RX_SIZE; /dev/shm for shm)",
		       what, domain, prov, fi_strerror(-rc), open, fab->quirk->memory_bytes >> 20);
}
