/* SHA-256 (FIPS 180-4), with the SHA instructions of the processor if it has them. */
#ifndef CANONRY_SHA256_H
#define CANONRY_SHA256_H

#include "bytes.h"

enum { SHA256_HEX = 64 }; /* digits of a hash */

/* Add `count` blocks of 64 bytes to the state. */
typedef void (*sha256_function)(uint32_t state[8], const uint8_t *blocks, size_t count);

void sha256_plain(uint32_t state[8], const uint8_t *blocks, size_t count);

/* The fastest function that this processor can run. */
sha256_function choose_sha256(void);

/* Write the hash of a text as lower-case hexadecimal digits. */
void sha256_hex(sha256_function sha256, const uint8_t *text, size_t length, uint8_t hex_digits[SHA256_HEX]);

#endif
