/* Which part of each row of a mask is not zero. */

#include <stdint.h>
#include <string.h>

static int are_zero(const uint8_t *bytes)
{
    uint64_t words[8];

    memcpy(words, bytes, sizeof words);
    return !(words[0] | words[1] | words[2] | words[3] | words[4] | words[5] | words[6] | words[7]);
}

/* Find the first nonzero byte of each row, and the last one: starts[row] ... stops[row] holds all of them, or is empty
   at 0. `stride` and `width` are in bytes. The padding is read once, what is between its ends not at all. Returns the number of rows. */
int64_t nonzero_bounds(const uint8_t *mask, int64_t stride, int64_t width, int64_t rows, int64_t *starts, int64_t *stops)
{
    for (int64_t row = 0; row < rows; row++, mask += stride) {
        int64_t start = 0, stop = width;

        while (stop >= 64 && are_zero(mask + stop - 64))
            stop -= 64;
        while (stop && !mask[stop - 1])
            stop--;
        while (start + 64 <= stop && are_zero(mask + start))
            start += 64;
        while (start < stop && !mask[start])
            start++;
        starts[row] = start;
        stops[row] = stop;
    }
    return rows;
}
