/* SPDX-License-Identifier: Apache-2.0 */
/* source.c -- the table of sources. */
#include "kvserver/member/source.h"

#include <string.h>

const struct source_class *source_class_of(const char *text, const char **out_spec, struct kv_error *err)
{
	static const struct source_class *const all[] = {&source_list, &source_file, &source_dns, &source_kube,
							 &source_etcd};
	for (unsigned i = 0; i < KV_COUNT(all); i++) {
		size_t len = strlen(all[i]->name);
		if (strncmp(text, all[i]->name, len) == 0 && text[len] == ':' && text[len + 1]) {
			*out_spec = text + len + 1;
			return all[i];
		}
	}
	kv_fail(err, -KV_EINVAL,
		"--members %.200s: give list:NAME=HOST:PORT,..., file:PATH, "
		"dns:NAME:PORT, k8s:NAMESPACE/SERVICE or etcd:URL,URL/PREFIX",
		text);
	return NULL;
}
