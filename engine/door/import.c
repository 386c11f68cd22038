/* SPDX-License-Identifier: Apache-2.0 */
/* import.c -- replace functions in libfabric's import table (docs/internals/decisions/008).
 *
 * libfabric calls accept() through a slot in its own data, found by the relocation that names it. Slots are read-only
 * after linking (RELRO), and become writable for the store only. A lazily bound slot points into libfabric itself; any
 * other content belongs to a second copy of KVRail or a preloaded library, which ours calls. All slots are found before
 * the first is replaced. Nothing is undone, so our object stays loaded. */
#include "engine/door/import.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#if defined(__x86_64__)
#define SLOT_CALL R_X86_64_JUMP_SLOT
#define SLOT_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define SLOT_CALL R_AARCH64_JUMP_SLOT
#define SLOT_DATA R_AARCH64_GLOB_DAT
#endif

enum { SLOTS_MAX = 64 };

struct slot {
	void **at;
	struct import *import;
	uintptr_t low, high; /* of its object */
	bool read_only;      /* memory made read-only after linking */
};

struct search {
	struct import *imports;
	size_t n;
	struct slot slot[SLOTS_MAX];
	size_t slots;
	bool seen; /* libfabric itself */
	bool full;
};

#ifdef SLOT_CALL
/* An entry of the dynamic section: an address, or before relocation an offset. */
static uintptr_t dyn_at(const struct dl_phdr_info *o, const ElfW(Dyn) * d)
{
	return d->d_un.d_ptr < o->dlpi_addr ? o->dlpi_addr + d->d_un.d_ptr : d->d_un.d_ptr;
}

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *o)
{
	for (unsigned i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const ElfW(Dyn) *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
	return NULL;
}

static void bounds_of(const struct dl_phdr_info *o, uintptr_t *low, uintptr_t *high)
{
	*low = UINTPTR_MAX;
	*high = 0;
	for (unsigned i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];
		if (p->p_type != PT_LOAD)
			continue;
		*low = KV_MIN(*low, o->dlpi_addr + p->p_vaddr);
		*high = KV_MAX(*high, o->dlpi_addr + p->p_vaddr + p->p_memsz);
	}
}

static uintptr_t page_of(uintptr_t at)
{
	return at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

/* The dynamic linker protects whole pages only: the rest at the end stays writable. */
static bool read_only(const struct dl_phdr_info *o, uintptr_t at)
{
	for (unsigned i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];
		uintptr_t low = o->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_GNU_RELRO && at >= page_of(low) && at < page_of(low + p->p_memsz))
			return true;
	}
	return false;
}

static struct import *wanted(const struct search *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->imports[i].name, name) == 0)
			return &s->imports[i];
	return NULL;
}

static void slots_find(struct search *s, const struct dl_phdr_info *o, const ElfW(Rela) * rela, size_t bytes,
		       const ElfW(Sym) * symbols, const char *strings)
{
	for (size_t i = 0; i < bytes / sizeof(*rela); i++) {
		unsigned type = (unsigned)ELF64_R_TYPE(rela[i].r_info);
		struct slot slot = {.at = (void **)(o->dlpi_addr + rela[i].r_offset)};
		if (type != SLOT_CALL && type != SLOT_DATA)
			continue;
		slot.import = wanted(s, strings + symbols[ELF64_R_SYM(rela[i].r_info)].st_name);
		if (!slot.import || s->slots == SLOTS_MAX) {
			s->full |= slot.import != NULL;
			continue;
		}
		bounds_of(o, &slot.low, &slot.high);
		slot.read_only = read_only(o, (uintptr_t)slot.at);
		s->slot[s->slots++] = slot;
	}
}

static void object_look(struct search *s, const struct dl_phdr_info *o)
{
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	uintptr_t calls = 0, data = 0;
	size_t calls_bytes = 0, data_bytes = 0;
	for (const ElfW(Dyn) *d = dynamic_of(o); d && d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			symbols = (const ElfW(Sym) *)dyn_at(o, d);
			break;
		case DT_STRTAB:
			strings = (const char *)dyn_at(o, d);
			break;
		case DT_JMPREL:
			calls = dyn_at(o, d);
			break;
		case DT_PLTRELSZ:
			calls_bytes = d->d_un.d_val;
			break;
		case DT_RELA:
			data = dyn_at(o, d);
			break;
		case DT_RELASZ:
			data_bytes = d->d_un.d_val;
			break;
		default:
			break;
		}
	}
	if (!symbols || !strings)
		return;
	slots_find(s, o, (const ElfW(Rela) *)calls, calls ? calls_bytes : 0, symbols, strings);
	slots_find(s, o, (const ElfW(Rela) *)data, data ? data_bytes : 0, symbols, strings);
}

/* A provider plug-in: libtcp-fi.so. */
static bool is_plugin(const char *path)
{
	static const char end[] = "-fi.so";
	size_t n = path ? strlen(path) : 0;
	return n >= sizeof(end) - 1 && strcmp(path + n - (sizeof(end) - 1), end) == 0;
}

static int object_visit(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct search *s = arg;
	uintptr_t low, high, inside = (uintptr_t)&fi_strerror;
	(void)size;
	bounds_of(o, &low, &high);
	if (inside >= low && inside < high) {
		/* If libfabric is linked into our object, no import table lies between it and the C library. */
		uintptr_t us = (uintptr_t)&import_replace;
		s->seen = us < low || us >= high;
	} else if (!is_plugin(o->dlpi_name)) {
		return 0;
	}
	object_look(s, o);
	return 0;
}

/* The page of a slot; slots do not cross pages. */
static int protect(const struct slot *slot, int prot)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	return slot->read_only ? mprotect((void *)page_of((uintptr_t)slot->at), page, prot) : 0;
}

static int slots_check(struct search *s, const char **why)
{
	if (!s->seen) {
		*why = "libfabric is linked into this program, or not by the dynamic linker";
		return -KV_ENOTSUP;
	}
	for (size_t i = 0; i < s->slots; i++)
		s->slot[i].import->found++;
	for (size_t i = 0; i < s->n; i++) {
		if (!s->full && (s->imports[i].found || !s->imports[i].needed))
			continue;
		*why = "this libfabric does not import a function that its tcp provider needs";
		return -KV_ENOTSUP;
	}
	/* All pages first, so that no store fails half-way. */
	for (size_t i = 0; i < s->slots; i++) {
		if (protect(&s->slot[i], PROT_READ | PROT_WRITE) == 0 && protect(&s->slot[i], PROT_READ) == 0)
			continue;
		*why = "the kernel does not let libfabric's import table be changed";
		return -KV_EDENIED;
	}
	return 0;
}

static void slot_replace(const struct slot *slot)
{
	struct import *im = slot->import;
	void *before = __atomic_load_n(slot->at, __ATOMIC_ACQUIRE);
	bool lazy = (uintptr_t)before >= slot->low && (uintptr_t)before < slot->high;
	if (before == im->ours)
		return;
	if (!im->before)
		im->before = lazy ? im->ordinary : before;
	if (protect(slot, PROT_READ | PROT_WRITE))
		return;
	__atomic_store_n(slot->at, im->ours, __ATOMIC_RELEASE);
	(void)protect(slot, PROT_READ);
}

int import_replace(struct import *imports, size_t n, const char **why)
{
	struct search s = {.imports = imports, .n = n};
	int rc;
	for (size_t i = 0; i < n; i++) {
		imports[i].found = 0;
		imports[i].before = NULL;
	}
	dl_iterate_phdr(object_visit, &s);
	rc = slots_check(&s, why);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		imports[i].before = NULL;
	kv_stay_loaded(); /* or libfabric would keep dangling addresses */
	for (size_t i = 0; i < s.slots; i++)
		slot_replace(&s.slot[i]);
	for (size_t i = 0; i < n; i++)
		if (!imports[i].before)
			imports[i].before = imports[i].ordinary;
	return 0;
}
#else
int import_replace(struct import *imports, size_t n, const char **why)
{
	(void)imports, (void)n;
	*why = "the relocations of this processor are unknown";
	return -KV_ENOTSUP;
}
#endif
