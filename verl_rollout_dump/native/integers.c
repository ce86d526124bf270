/* Rows of whole numbers as JSON arrays. */

#include <stdint.h>
#include <string.h>

#define LONGEST 24 /* room for a number and what is written behind it */

#define ASCII_ZEROS 0x3030303030303030u

/* The digits of a number below 10^8, each a byte, the first one lowest: all are found at once, two by two by two. */
static inline uint64_t eight_digits(uint32_t number)
{
    uint64_t fours = number / 10000 + ((uint64_t)(number % 10000) << 32);
    uint64_t hundreds = ((fours * 10486) >> 20) & 0x0000007F0000007Fu; /* each divided by 100 */
    uint64_t twos = hundreds + ((fours - hundreds * 100) << 16);
    uint64_t tens = ((twos * 103) >> 10) & 0x000F000F000F000Fu; /* each divided by 10 */

    return tens + ((twos - tens * 10) << 8);
}

static uint8_t *write_small(uint8_t *place, uint32_t number)
{
    uint64_t digits = eight_digits(number);
    int leading = number ? __builtin_ctzll(digits) / 8 : 7;

    digits = (digits | ASCII_ZEROS) >> 8 * leading;
    memcpy(place, &digits, sizeof digits);
    return place + 8 - leading;
}

static uint8_t *write_digits(uint8_t *place, uint64_t number)
{
    if (number >= 100000000) {
        uint64_t digits = eight_digits(number % 100000000) | ASCII_ZEROS;

        place = write_digits(place, number / 100000000);
        memcpy(place, &digits, sizeof digits);
        return place + 8;
    }
    return write_small(place, number);
}

static uint8_t *write_integer(uint8_t *place, int64_t number)
{
    if (number < 0)
        *place++ = '-';
    return write_digits(place, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

/* Write numbers[row * stride + starts[row] ... stops[row]] of each row as a JSON array, as many rows as find room in
   `text`; returns their number, and in `ends` where each ends. */
int64_t write_integers(const int64_t *numbers, int64_t stride, const int64_t *starts, const int64_t *stops,
                       int64_t rows, uint8_t *text, int64_t capacity, int64_t *ends)
{
    uint8_t *place = text, *limit = text + capacity;

    for (int64_t row = 0; row < rows; row++) {
        const int64_t *number = numbers + row * stride + starts[row], *stop = numbers + row * stride + stops[row];

        if (limit - place < (stop - number + 2) * LONGEST)
            return row;
        *place++ = '[';
        for (; number < stop; number++) {
            place = write_integer(place, *number);
            *place++ = ',';
        }
        place -= place[-1] == ',';
        *place++ = ']';
        ends[row] = place - text;
    }
    return rows;
}
