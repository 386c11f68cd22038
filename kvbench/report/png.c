/* SPDX-License-Identifier: Apache-2.0 */
/* png.c -- rsvg-convert as a filter. Both ends are files in memory, so that no pipe can fill up and stop both sides. */
#include "kvbench/report/png.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int convert(int in, int out)
{
	char *const argv[] = {"rsvg-convert", "--format", "png", "--width", "1320", NULL};
	posix_spawn_file_actions_t actions;
	int rc, status = 0;
	pid_t child;
	if (posix_spawn_file_actions_init(&actions))
		return -ENOMEM;
	rc = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (rc == 0)
		rc = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc)
		return -rc;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return -ENOENT;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static char *whole(int fd, size_t *len)
{
	struct stat st;
	char *data;
	if (fstat(fd, &st) < 0 || st.st_size <= 0)
		return NULL;
	data = malloc((size_t)st.st_size);
	if (data && pread(fd, data, (size_t)st.st_size, 0) != st.st_size) {
		free(data);
		return NULL;
	}
	*len = (size_t)st.st_size;
	return data;
}

char *png_from_svg(const char *svg, size_t svg_len, size_t *len, struct kv_error *err)
{
	int in = memfd_create("svg", MFD_CLOEXEC), out = memfd_create("png", MFD_CLOEXEC), rc = 0;
	char *png = NULL;
	if (in < 0 || out < 0 || pwrite(in, svg, svg_len, 0) != (ssize_t)svg_len)
		rc = -ENOMEM;
	if (rc == 0)
		rc = convert(in, out);
	if (rc == 0)
		png = whole(out, len);
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	if (rc == -ENOENT)
		kv_fail(err, rc,
			"a PNG is made by rsvg-convert, which is not installed: install it (Debian: librsvg2-bin, Red "
			"Hat: "
			"librsvg2-tools), or write an .svg");
	else if (!png)
		kv_fail(err, rc < 0 ? rc : -EIO, "rsvg-convert made no PNG: write an .svg instead");
	return png;
}
