/* Rows of numbers as JSON arrays. */

#include <stdint.h>
#include <string.h>

#define LONGEST 24 /* room for a number and what is written behind it */
#define MOST 9     /* digits of a float32 */

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

struct decimal {
    uint32_t digits; /* the value is digits * 10^exponent */
    int exponent;
};

/* floor(exponent * log10(2)), floor(exponent * log10(2) + log10(3/4)) and floor(exponent * log2(10)), as far as
   float32 goes; >> rounds down. */
static int log10_of_power_of_2(int exponent) { return (exponent * 1262611) >> 22; }
static int log10_of_three_quarters(int exponent) { return (exponent * 1262611 - 524031) >> 22; }
static int log2_of_power_of_10(int exponent) { return (exponent * 1741647) >> 19; }

__extension__ typedef unsigned __int128 uint128;

/* product / 2^64, rounded to odd: the lowest bit tells whether anything was cut off. (The lowest 32 bits are noise.) */
static uint32_t rounded_to_odd(uint128 product)
{
    return (uint32_t)(product >> 64) | ((uint32_t)(product >> 32) > 1);
}

/* The shortest decimal that reads back as this float32, of several the nearest: Raffaello Giulietti, "The Schubfach way
   to render doubles" (2020), with its names, for 32 bits. `bits` are those of a positive finite number; powers[k + 31]
   is 10^k as 64 bits, rounded up, for k from -31 to 45 (`POWERS_OF_TEN` in __init__.py). */
static inline struct decimal shortest(uint32_t bits, const uint64_t *powers)
{
    uint32_t fraction = bits & 0x7FFFFF, biased = bits >> 23;
    uint32_t c = biased ? fraction | 0x800000 : fraction;
    int q = (int)(biased ? biased : 1) - 150;                  /* the value is c * 2^q */
    uint32_t out = c & 1, is_closer = !fraction && biased > 1; /* half the distance to the number below */
    int k = is_closer ? log10_of_three_quarters(q) : log10_of_power_of_2(q);
    int h = q + log2_of_power_of_10(-k) + 1;
    uint64_t power = powers[31 - k];
    uint128 unit = (uint128)power << h, number = (uint128)power * ((uint64_t)(4 * c) << h);
    /* Four times the number, and the ends of what rounds to it, in units of 10^k. */
    uint32_t vb = rounded_to_odd(number), lower = rounded_to_odd(number - unit * (2 - is_closer)) + out;
    uint32_t upper = rounded_to_odd(number + unit * 2) - out;
    uint32_t s = vb / 4, t = s / 10 * 10;
    /* One digit less will do if just one of its two neighbours does. (No &&: these branches could not be foretold.) */
    uint32_t is_short = (s >= 10) & ((lower <= 4 * t) != (4 * t + 40 <= upper));
    uint32_t is_one = (lower <= 4 * s) != (4 * s + 4 <= upper);
    uint32_t is_nearer_above = (vb > 4 * s + 2) | ((vb == 4 * s + 2) & s & 1);
    uint32_t digits = s + (((lower > 4 * s) & is_one) | (is_nearer_above & !is_one));
    uint32_t fewer = s / 10 + (lower > 4 * t);

    return (struct decimal){digits ^ ((digits ^ fewer) & -is_short), k + (int)is_short};
}

/* Write a decimal as orjson does: with a point from 0.000001 up to below 10^13, else with an exponent. */
static inline uint8_t *write_decimal(uint8_t *place, struct decimal decimal)
{
    /* Up to nine digits, without zeros at either end. All stays in registers: bytes read back so soon would stall. */
    uint32_t high = decimal.digits / 100000000;
    uint64_t low = eight_digits(decimal.digits - high * 100000000);
    int leading = (1 + __builtin_ctzll(low | 1ull << 63) / 8) & -(high == 0);
    int trailing = low ? __builtin_clzll(low) / 8 : 8;
    int count = 9 - leading - trailing, point = 9 - leading + decimal.exponent;
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
    *place++ = point < 1 ? '-' : '+';
    return write_small(place, point < 1 ? 1 - point : point - 1);
}

/* Write a finite number; NULL for another. */
static inline uint8_t *write_float(uint8_t *place, float number, const uint64_t *powers)
{
    uint32_t bits;

    memcpy(&bits, &number, sizeof bits);
    *place = '-';
    place += bits >> 31;
    bits &= 0x7FFFFFFF;
    if (bits >= 0x7F800000)
        return NULL;
    if (!bits) {
        memcpy(place, "0.0", 3);
        return place + 3;
    }
    return write_decimal(place, shortest(bits, powers));
}

/* Write numbers[row * stride + starts[row] ... stops[row]] of each row as a JSON array, as many rows as find room in
   `text`; returns their number, and in `ends` where each ends. */
int64_t write_integers(const int64_t *numbers, int64_t stride, const int64_t *starts, const int64_t *stops, int64_t rows,
                       uint8_t *text, int64_t capacity, int64_t *ends)
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

/* The same for float32. Returns -1 where one is not finite: JSON has no such numbers. */
int64_t write_floats(const float *numbers, int64_t stride, const int64_t *starts, const int64_t *stops, int64_t rows,
                     const uint64_t *powers, uint8_t *text, int64_t capacity, int64_t *ends)
{
    uint8_t *place = text, *limit = text + capacity;

    for (int64_t row = 0; row < rows; row++) {
        const float *number = numbers + row * stride + starts[row], *stop = numbers + row * stride + stops[row];

        if (limit - place < (stop - number + 2) * LONGEST)
            return row;
        *place++ = '[';
        for (; number < stop; number++) {
            place = write_float(place, *number, powers);
            if (!place)
                return -1;
            *place++ = ',';
        }
        place -= place[-1] == ',';
        *place++ = ']';
        ends[row] = place - text;
    }
    return rows;
}
