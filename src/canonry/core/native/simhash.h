/* The simhash of a text (docs/fingerprint.md): the same number as core/simhash.py. */
#ifndef CANONRY_SIMHASH_H
#define CANONRY_SIMHASH_H

#include "bytes.h"

/* The simhash of a text in UTF-8 whose words are separated by single spaces; 0 if it is empty. */
uint64_t simhash_text(const uint8_t *text, size_t length);

#endif
