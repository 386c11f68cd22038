/* SPDX-License-Identifier: Apache-2.0 */
/* vanished.c -- see vanished.h.
 *
 * No seal protects the size of a file of --arena-file: tmpfs and hugetlbfs have seals for memfds alone. If somebody
 * shortens it, the next touch of its lost part is SIGBUS, on whichever thread. The handler names the file, restores the
 * default action and returns, so that the same touch ends the process. It calls only functions that are safe in a
 * signal handler: the file is found in /proc/self/maps with read(). */
#include "kvserver/vanished.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

enum { LINE_CAP = 512 };

struct line {
	char text[LINE_CAP];
	size_t len;
};

static void add(struct line *l, const char *text)
{
	size_t n = KV_MIN(strlen(text), LINE_CAP - l->len);
	memcpy(l->text + l->len, text, n);
	l->len += n;
}

/* "FROM-TO ..." in hexadecimal digits: whether the address is in between. */
static bool line_has(const char *line, uintptr_t address)
{
	uintptr_t end[2] = {0, 0};
	for (unsigned i = 0; i < 2; i++, line++)
		for (; (*line >= '0' && *line <= '9') || (*line >= 'a' && *line <= 'f'); line++)
			end[i] = end[i] << 4 | (uintptr_t)(*line <= '9' ? *line - '0' : *line - 'a' + 10);
	return address >= end[0] && address < end[1];
}

/* The file that is mapped at the address; false: none, or a nameless one. */
static bool file_find(uintptr_t address, char out[LINE_CAP])
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	bool found = false;
	while (fd >= 0 && !found && read(fd, out + n, 1) == 1) {
		if (out[n] != '\n') {
			n += n < LINE_CAP - 1;
			continue;
		}
		out[n] = '\0';
		n = 0;
		found = line_has(out, address);
	}
	if (fd >= 0)
		close(fd);
	if (found) {
		const char *path = strchr(out, '/');
		found = path != NULL;
		if (path)
			memmove(out, path, strlen(path) + 1);
	}
	return found;
}

static void on_sigbus(int signo, siginfo_t *info, void *context)
{
	struct line l = {.len = 0};
	char path[LINE_CAP];
	(void)context;
	add(&l, "kv-server: ");
	if (file_find((uintptr_t)info->si_addr, path)) {
		add(&l, path);
		add(&l, " is shorter than when this server mapped it, and the values there are lost (SIGBUS): start "
			"the server again, and do not change files of --arena-file while it runs\n");
	} else {
		add(&l, "a page of memory is lost (SIGBUS): the kernel log may name a memory fault; start the server "
			"again\n");
	}
	(void)!write(STDERR_FILENO, l.text, l.len);
	signal(signo, SIG_DFL);
}

void vanished_watch(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
	sigemptyset(&action.sa_mask);
	(void)sigaction(SIGBUS, &action, NULL); /* without it SIGBUS ends the process without a word */
}
