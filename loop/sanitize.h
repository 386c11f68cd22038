/* SPDX-License-Identifier: Apache-2.0 */
/* sanitize.h -- the sanitizer of this build and its fiber interface; also valgrind's, where installed. */
#ifndef KVRAIL_LOOP_SANITIZE_H
#define KVRAIL_LOOP_SANITIZE_H

#if defined(__SANITIZE_ADDRESS__)
#define KV_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KV_ASAN 1
#endif
#endif
#ifndef KV_ASAN
#define KV_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define KV_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KV_TSAN 1
#endif
#endif
#ifndef KV_TSAN
#define KV_TSAN 0
#endif

/* A few instructions that do nothing outside valgrind. */
#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define KV_VALGRIND 1
#endif
#endif
#ifndef KV_VALGRIND
#define KV_VALGRIND 0
#endif

#if KV_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if KV_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#endif
