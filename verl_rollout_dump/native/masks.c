/* Which part of each row of a mask is not zero. */

#include <stdint.h>
#include <string.h>

typedef uint64_t pair __attribute__((vector_size(16), aligned(1), may_alias)); /* loaded from any address */

#define BLOCK 256 /* bytes that are looked at together */

static inline int is_zero_block(const uint8_t *bytes)
{
    const pair *pairs = (const pair *)bytes;
    pair any = pairs[0];

    for (int i = 1; i < BLOCK / (int)sizeof(pair); i++)
        any |= pairs[i];
    return !(any[0] | any[1]);
}

static inline int is_zero_word(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return !word;
}

/* Find the first nonzero byte of each row, and the last one: starts[row] ... stops[row] holds all of them, or is empty
   at 0. `stride` and `width` are in bytes. The padding is read once, what is between its ends not at all. Returns the
   number of rows. */
int64_t nonzero_bounds(const uint8_t *mask, int64_t stride, int64_t width, int64_t rows, int64_t *starts,
                       int64_t *stops)
{
    for (int64_t row = 0; row < rows; row++, mask += stride) {
        int64_t start = 0, stop = width;

        while (stop >= BLOCK && is_zero_block(mask + stop - BLOCK))
            stop -= BLOCK;
        while (stop >= 8 && is_zero_word(mask + stop - 8))
            stop -= 8;
        while (stop && !mask[stop - 1])
            stop--;
        while (start + BLOCK <= stop && is_zero_block(mask + start))
            start += BLOCK;
        while (start + 8 <= stop && is_zero_word(mask + start))
            start += 8;
        while (start < stop && !mask[start])
            start++;
        starts[row] = start;
        stops[row] = stop;
    }
    return rows;
}
