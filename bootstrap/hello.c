/* SPDX-License-Identifier: Apache-2.0 */
/* hello.c -- may two sides talk over the fabric? The fabric's name counts on EFA only ("efa" and "efa-direct" are two
 * protocols); elsewhere it names a subnet, which may differ. Names come from the network: '?' replaces unprintable
 * bytes. */
#include "bootstrap/bootstrap.h"

struct shown {
	char text[KV_NAME_MAX];
};

static struct shown show(const char name[KV_NAME_MAX])
{
	struct shown s = {{0}};
	for (size_t i = 0; i + 1 < sizeof(s.text) && name[i]; i++)
		s.text[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
	return s;
}

static bool same(const char a[KV_NAME_MAX], const char b[KV_NAME_MAX])
{
	return strncmp(a, b, KV_NAME_MAX) == 0;
}

static int eager_fail(const struct boot_identity *ours, const char *our_side, const struct boot_identity *theirs,
		      const char *their_side, struct kv_error *err)
{
	struct shown provider = show(ours->provider);
	if (strstr(provider.text, "ofi_rxm"))
		return kv_fail(err, -KV_EVERSION,
			       "the eager sizes differ: %u bytes on %s, %u bytes on %s, and provider %s needs them "
			       "equal: set the environment variable"
			       " FI_OFI_RXM_BUFFER_SIZE to the same value on both sides",
			       ours->eager_bytes, our_side, theirs->eager_bytes, their_side, provider.text);
	return kv_fail(err, -KV_EVERSION,
		       "the eager sizes differ: %u bytes on %s, %u bytes on %s: use the same libfabric version and the "
		       "same FI_* environment variables"
		       " for provider %s on both sides",
		       ours->eager_bytes, our_side, theirs->eager_bytes, their_side, provider.text);
}

int boot_hello_check(const struct boot_identity *ours, const char *our_side, const struct boot_identity *theirs,
		     const char *their_side, struct kv_error *err)
{
	struct shown our_name = show(ours->provider), their_name = show(theirs->provider);
	if (!same(ours->provider, theirs->provider))
		return kv_fail(
			err, -KV_EVERSION,
			"the providers differ: \"%s\" on %s, \"%s\" on %s: choose the same provider on both sides",
			our_name.text, our_side, their_name.text, their_side);
	our_name = show(ours->fabric);
	their_name = show(theirs->fabric);
	if (strcmp(ours->provider, "efa") == 0 && !same(ours->fabric, theirs->fabric))
		return kv_fail(err, -KV_EVERSION,
			       "the EFA fabrics differ: \"%s\" on %s, \"%s\" on %s, and the two "
			       "cannot talk to each other: choose the same fabric on both sides",
			       our_name.text, our_side, their_name.text, their_side);
	if (ours->eager_bytes != theirs->eager_bytes)
		return eager_fail(ours, our_side, theirs, their_side, err);
	return 0;
}
