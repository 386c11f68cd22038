/* SPDX-License-Identifier: Apache-2.0 */
/* help.h -- kv-bench --help in one screen, and kv-bench help TOPIC. */
#ifndef KVRAIL_KVBENCH_HELP_H
#define KVRAIL_KVBENCH_HELP_H

/* help_wanted -- whether this command line asks for the overview or for a topic. */
int help_wanted(int argc, char **argv);

struct help_command {
	const char *name, *about;
	int (*main)(int argc, char **argv);
};

/* help_main -- print it. commands: name NULL ends them. Returns the exit status. */
int help_main(int argc, char **argv, const struct help_command *commands);

#endif
