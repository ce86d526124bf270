/* Joining the pieces of text that token ids stand for. */

#include <stdint.h>
#include <string.h>

/* HEAD, STORED, SPLIT and COMPLETES_SEPARATOR come from piece_layout.py, through setup.py. */

/* The piece of one id: 16 bytes, so that a whole vocabulary stays in the cache. */
struct piece {
    uint8_t head[HEAD]; /* its first bytes, the rest zero */
    uint8_t length;     /* above HEAD: look at `starts` */
    uint8_t marks;      /* bits. SPLIT: it begins or ends inside a character; COMPLETES_SEPARATOR: it may, see below */
};

/* The bytes of a character that begins with `lead`: 1 to 4, or 0 where none does. */
static int character_length(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

/* Whether `place` holds whole characters up to `stop`: table 3-7 of the Unicode standard. */
static int are_characters(const uint8_t *place, const uint8_t *stop)
{
    while (place < stop) {
        uint8_t lead = *place, low = 0x80, high = 0xBF;
        int length = character_length(lead);

        if (!length || stop - place < length)
            return 0;
        if (lead == 0xE0) low = 0xA0;  /* no longer form than it needs */
        if (lead == 0xED) high = 0x9F; /* no surrogates */
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F; /* nothing above U+10FFFF */
        for (int i = 1; i < length; i++, low = 0x80, high = 0xBF)
            if (place[i] < low || place[i] > high)
                return 0;
        place += length;
    }
    return 1;
}

/* Whether the piece at `place` completes U+0085, U+2028 or U+2029, begun by bytes before it, from `first` on. */
static int completes_separator(const uint8_t *first, const uint8_t *place)
{
    if (place - first >= 1 && place[-1] == 0xC2)
        return place[0] == 0x85;
    if (place - first >= 1 && place[-1] == 0xE2)
        return place[0] == 0x80 && (place[1] | 1) == 0xA9;
    return place - first >= 2 && place[-2] == 0xE2 && place[-1] == 0x80 && (place[0] | 1) == 0xA9;
}

/* Join the pieces of ids[row * stride + begins[row] ... stops[row]] for each row, as many rows as find room in `text`.

   `bytes` holds all pieces, piece i at starts[i] ... starts[i + 1]. An id outside of 0 ... last - 1 counts as `last`.
   Writes where each row ends in `text`, and the marks of all its pieces together; SPLIT stays only where the row is no
   UTF-8, for which the runs of split pieces are looked at, and COMPLETES_SEPARATOR only where one of them does. Returns
   the number of rows joined. Each piece is stored with what stands behind its head, and the next one overwrites that:
   one store without a branch, for nearly every id all that there is to do. */
int64_t join_rows(const int64_t *ids, int64_t stride, const int64_t *begins, const int64_t *stops, int64_t rows,
                  const struct piece *pieces, uint64_t last, const uint8_t *bytes, const int64_t *starts,
                  uint8_t *text, int64_t capacity, int64_t *ends, uint8_t *row_marks)
{
    uint8_t *place = text, *limit = text + capacity - STORED;

    for (int64_t row = 0; row < rows; row++) {
        const int64_t *id = ids + row * stride + begins[row], *stop = ids + row * stride + stops[row];
        uint8_t *first = place, *run = place, in_run = 0, all = 0, broken = 0;

        if (limit - place < (stop - id) * HEAD) /* room for the heads; a longer piece looks for its own */
            return row;
        for (; id < stop; id++) {
            uint64_t number = (uint64_t)*id < last ? (uint64_t)*id : last;
            const struct piece *piece = &pieces[number];
            int64_t length = piece->length;
            uint8_t marks = piece->marks;

            memcpy(place, piece, STORED);
            if ((marks | in_run) & SPLIT) {
                if (marks & COMPLETES_SEPARATOR && !completes_separator(first, place))
                    marks &= ~COMPLETES_SEPARATOR;
                if (!in_run) {
                    run = place;
                    in_run = SPLIT;
                } else if (!(marks & SPLIT) && length) {
                    broken |= !are_characters(run, place);
                    in_run = 0;
                }
            }
            if (length > HEAD) {
                length = starts[number + 1] - starts[number];
                if (limit - place < (stop - id) * HEAD + length)
                    return row;
                memcpy(place + HEAD, bytes + starts[number] + HEAD, length - HEAD);
            }
            place += length;
            all |= marks;
        }
        if (in_run)
            broken |= !are_characters(run, place);
        ends[row] = place - text;
        row_marks[row] = broken ? all : all & ~SPLIT;
    }
    return rows;
}
