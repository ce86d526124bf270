/* Rows of float32 as JSON arrays. */

#include <stdint.h>
#include <string.h>

#define LONGEST 24 /* room for a number and what is written behind it */
#define MOST 9     /* digits of a number */

#define ASCII_ZEROS 0x3030303030303030u

/* The numbers c * 2^q of one q (`scales` in __init__.py): four times each is 4 * c * 2^shift * power / 2^64 in units
   of 10^exponent. `half` is that product for c = 1/2, which is how far the numbers that round to c reach. */
struct scale {
    uint64_t power, half[2];
    int32_t exponent, shift;
};

#define SUBNORMAL 0x00800000 /* below: no leading bit */
#define INFINITE 0x7F800000
#define CLOSER 256 /* so many scales on: for powers of two, whose neighbour below is only half as far */

#define BLOCK 64 /* numbers that are worked on together: what all of them need stays in the nearest cache */

/* Decimals, and how they are spelt: each is digits[i] * 10^exponents[i], and of its nine digits the first is ninths[i],
   the others are the bytes of spelt[2 * i] and spelt[2 * i + 1]. */
struct decimals {
    uint32_t digits[BLOCK], ninths[BLOCK], spelt[2 * BLOCK];
    int32_t exponents[BLOCK];
};

__extension__ typedef unsigned __int128 uint128;

/* product / 2^64, rounded to odd: the lowest bit tells whether anything was cut off. (The lowest 32 bits are noise.) */
static inline uint32_t rounded_to_odd(uint128 product)
{
    return (uint32_t)(product >> 64) | ((uint64_t)product >> 32 > 1);
}

/* Find the shortest decimal that reads back as this float32, of several the nearest: Raffaello Giulietti, "The
   Schubfach way to render doubles" (2020), with its names, for 32 bits. Without a branch: none could be foretold. */
static inline void find_shortest(struct decimals *found, int i, uint32_t c, const struct scale *scale, int is_closer)
{
    /* Four times the number, and the ends of what rounds to it, in units of 10^exponent. */
    uint128 number = (uint128)scale->power * ((uint64_t)(4 * c) << scale->shift);
    uint128 above = (uint128)scale->half[1] << 64 | scale->half[0];
    uint32_t vb = rounded_to_odd(number), is_odd = c & 1;
    uint32_t lower = rounded_to_odd(number - (above >> is_closer)) + is_odd;
    uint32_t upper = rounded_to_odd(number + above) - is_odd;
    /* The whole numbers around it, and the whole tens: one digit less will do if just one of these does. */
    uint32_t s = vb / 4, ten = vb / 40, below = 4 * s, ten_below = 40 * ten;
    uint32_t is_short = (lower <= ten_below) ^ (ten_below + 40 <= upper);
    uint32_t fewer = ten + (lower > ten_below);
    uint32_t is_below = lower <= below, is_above = below + 4 <= upper;
    uint32_t is_nearer_above = (vb & 3) + (s & 1) > 2; /* to the even one, if both are equally near */
    uint32_t digits = s + ((is_above & ~is_below) | (is_nearer_above & ~(is_above ^ is_below)));

    found->digits[i] = digits ^ ((digits ^ fewer) & -is_short);
    found->exponents[i] = scale->exponent + (int32_t)is_short;
}

/* The same for zero, powers of two, and numbers without a leading bit. */
static void find_special(struct decimals *found, int i, uint32_t bits, const struct scale *scales)
{
    uint32_t fraction = bits & (SUBNORMAL - 1), is_closer = !fraction && bits > SUBNORMAL;
    uint32_t c = bits < SUBNORMAL ? fraction : fraction | SUBNORMAL;

    found->digits[i] = 0;
    found->exponents[i] = 0;
    if (bits)
        find_shortest(found, i, c, &scales[(bits >> 23) + CLOSER * is_closer], is_closer);
}

/* Find the decimals of up to BLOCK numbers, without their signs; 0 where one is not finite. */
static int find_decimals(struct decimals *found, const uint32_t *bits, int count, const struct scale *scales)
{
    uint32_t overflow = 0;

    for (int i = 0; i < count; i++) {
        uint32_t positive = bits[i] & 0x7FFFFFFF, fraction = positive & (SUBNORMAL - 1);

        overflow |= positive + (0x80000000 - INFINITE);
        if (__builtin_expect(!fraction | (positive < SUBNORMAL), 0))
            find_special(found, i, positive, scales);
        else
            find_shortest(found, i, fraction | SUBNORMAL, &scales[positive >> 23], 0);
    }
    return overflow < 0x80000000;
}

/* Spell the digits of all decimals, each a byte, the first one lowest. These loops become vectors. */
static void spell(struct decimals *found)
{
    for (int i = 0; i < BLOCK; i++) {
        uint32_t is_nine = found->digits[i] >= 100000000, eight = found->digits[i] - (100000000 & -is_nine);

        found->ninths[i] = is_nine; /* there is none above 167772160 */
        found->spelt[2 * i] = eight / 10000;
        found->spelt[2 * i + 1] = eight % 10000;
    }
    for (int i = 0; i < 2 * BLOCK; i++) {
        uint32_t four = found->spelt[i], hundreds = (four * 10486) >> 20;
        uint32_t twos = hundreds + ((four - hundreds * 100) << 16), tens = ((twos * 103) >> 10) & 0x000F000Fu;

        found->spelt[i] = tens + ((twos - tens * 10) << 8);
    }
}

static uint8_t *write_exponent(uint8_t *place, int exponent)
{
    int size = exponent < 0 ? -exponent : exponent;

    *place++ = exponent < 0 ? '-' : '+';
    *place = '0' + size / 10;
    place += size > 9;
    *place++ = '0' + size % 10;
    return place;
}

/* Write a decimal as orjson does: with a point from 0.000001 up to below 10^13, else with an exponent. `high` is the
   first of its nine digits, `low` holds the others. */
static inline uint8_t *write_decimal(uint8_t *place, uint32_t high, uint64_t low, int exponent)
{
    /* Up to nine digits, without zeros at either end. All stays in registers: bytes read back so soon would stall. */
    int leading = (1 + __builtin_ctzll(low | 1ull << 63) / 8) & -(high == 0);
    int trailing = low ? __builtin_clzll(low) / 8 : 8;
    int count = 9 - leading - trailing, point = 9 - leading + exponent;
    /* The first eight digits, and where the ninth of all comes to stand. */
    uint64_t spelt = low | ASCII_ZEROS, text = (spelt << 8 | ('0' + high)) >> 8 * leading;
    uint8_t ninth = spelt >> 56;
    int ninth_at = 8 - leading;

    if (-6 < point && point <= 0) {
        memcpy(place, "0.000000", 8);
        place += 2 - point;
        memcpy(place, &text, sizeof text);
        place[ninth_at] = ninth;
        return place + count;
    }
    if (point == 1 && count > 1) {
        place[0] = (uint8_t)text;
        place[1] = '.';
        text >>= 8;
        memcpy(place + 2, &text, sizeof text);
        place[ninth_at + 1] = ninth;
        return place + count + 1;
    }
    memcpy(place, &text, sizeof text);
    place[ninth_at] = ninth;
    if (0 < point && point < count) {
        memmove(place + point + 1, place + point, MOST);
        place[point] = '.';
        return place + count + 1;
    }
    if (0 < point && point <= 13) {
        memcpy(place + count, "000000000000", 12);
        memcpy(place + point, ".0", 2);
        return place + point + 2;
    }
    if (count > 1) {
        memmove(place + 2, place + 1, MOST);
        place[1] = '.';
    }
    place += count + (count > 1);
    *place++ = 'e';
    return write_exponent(place, point - 1);
}

/* Write up to BLOCK numbers, each with a comma behind it; NULL where one is not finite. */
static uint8_t *write_block(uint8_t *place, const float *numbers, int count, const struct scale *scales)
{
    struct decimals found;
    uint32_t bits[BLOCK];

    if (count < BLOCK)
        memset(found.digits, 0, sizeof found.digits);
    memcpy(bits, numbers, count * sizeof *numbers);
    if (!find_decimals(&found, bits, count, scales))
        return NULL;
    spell(&found);
    for (int i = 0; i < count; i++) {
        uint64_t low;

        memcpy(&low, found.spelt + 2 * i, sizeof low);
        *place = '-';
        place += bits[i] >> 31;
        if (found.digits[i]) {
            place = write_decimal(place, found.ninths[i], low, found.exponents[i]);
        } else {
            memcpy(place, "0.0", 3);
            place += 3;
        }
        *place++ = ',';
    }
    return place;
}

/* Write numbers[row * stride + starts[row] ... stops[row]] of each row as a JSON array, as many rows as find room in
   `text`; returns how many, and in `ends` where each ends. Returns -1 where one is not finite: JSON has no such. */
int64_t write_floats(const float *numbers, int64_t stride, const int64_t *starts, const int64_t *stops, int64_t rows,
                     const struct scale *scales, uint8_t *text, int64_t capacity, int64_t *ends)
{
    uint8_t *place = text, *limit = text + capacity;

    for (int64_t row = 0; row < rows; row++) {
        const float *number = numbers + row * stride + starts[row], *stop = numbers + row * stride + stops[row];

        if (limit - place < (stop - number + 2) * LONGEST)
            return row;
        *place++ = '[';
        for (; number < stop; number += BLOCK) {
            place = write_block(place, number, stop - number < BLOCK ? stop - number : BLOCK, scales);
            if (!place)
                return -1;
        }
        place -= place[-1] == ',';
        *place++ = ']';
        ends[row] = place - text;
    }
    return rows;
}
