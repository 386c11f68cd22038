/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c -- base64 as in etcd's JSON (RFC 4648, section 4, padded), by OpenSSL, which would take '=' for a letter. */
#include "base/base64.h"

#include <openssl/evp.h>
#include <string.h>

bool base64_write(const void *data, size_t len, char *out, size_t cap)
{
	if ((len + 2) / 3 * 4 >= cap)
		return false;
	EVP_EncodeBlock((unsigned char *)out, data, (int)len);
	return true;
}

bool base64_read(const char *text, char *out, size_t cap, size_t *out_len)
{
	size_t len = strlen(text), letters = strcspn(text, "=");
	int bytes;
	if (len % 4 || len / 4 * 3 >= cap || len - letters > 2 || strspn(text + letters, "=") != len - letters)
		return false;
	bytes = EVP_DecodeBlock((unsigned char *)out, (const unsigned char *)text, (int)len);
	if (bytes < 0 || text[strcspn(text, " \t\r\n")])
		return false;
	*out_len = (size_t)bytes - (len - letters);
	out[*out_len] = '\0';
	return true;
}
