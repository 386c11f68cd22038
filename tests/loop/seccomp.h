/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp.h -- forbid system calls to this process, as a container's seccomp profile does. For life. */
#ifndef KVRAIL_TESTS_LOOP_SECCOMP_H
#define KVRAIL_TESTS_LOOP_SECCOMP_H

/* seccomp_forbid -- from now on this system call returns this errno, in every thread that is made later, too. 0 or
 * -errno. */
int seccomp_forbid(long call, int with_errno);

#endif
