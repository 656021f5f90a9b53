/* Layouts of a message in memory: the same stream of bytes as one block, a vector, blocks in any order, or a small type
 * repeated. The test fills and checks a buffer by the list of blocks, the library by the datatype. */
#ifndef LAYOUT_H
#define LAYOUT_H
#include "check.h"

enum { LAYOUT_BYTES, LAYOUT_VECTOR, LAYOUT_INDEXED, LAYOUT_REVERSED, LAYOUT_REPEATED, LAYOUTS, UNTOUCHED = 0xee };

struct block { size_t at, bytes; };
struct layout {
    MPI_Datatype type;
    int count, owned;      /* owned: the type is to be freed */
    size_t span, bytes;    /* memory, and bytes of data */
    int blocks;
    struct block *block;   /* in the order of the stream */
};

static void layout_indexed(struct layout *l, int reversed)
{
    int *lengths = calloc(l->blocks + 1, sizeof *lengths);
    MPI_Aint *places = calloc(l->blocks + 1, sizeof *places);
    for (int i = 0; reversed && i < l->blocks; i++)
        l->block[i].at = l->span - l->block[i].at - l->block[i].bytes;
    for (int i = 0; i < l->blocks; i++) {
        lengths[i] = (int)l->block[i].bytes;
        places[i] = (MPI_Aint)l->block[i].at;
    }
    OK(MPI_Type_create_hindexed(l->blocks, lengths, places, MPI_BYTE, &l->type));
    OK(MPI_Type_commit(&l->type));
    l->owned = l->count = 1;
    free(lengths);
    free(places);
}

/* `count` elements of `bytes` data, `stride` apart: as a vector, or as a resized type that is sent `count` times. */
static void layout_regular(struct layout *l, int count, int bytes, int stride, int repeated)
{
    MPI_Datatype piece;
    if (repeated) {
        OK(MPI_Type_contiguous(bytes, MPI_BYTE, &piece));
        OK(MPI_Type_create_resized(piece, 0, stride, &l->type));
        OK(MPI_Type_free(&piece));
        l->count = count;
    } else {
        OK(MPI_Type_vector(count, bytes, stride, MPI_BYTE, &l->type));
        l->count = 1;
    }
    OK(MPI_Type_commit(&l->type));
    l->owned = 1;
}

/* The same arguments give the same layout on every rank. */
static struct layout layout_make(int kind, size_t bytes, uint64_t seed)
{
    struct layout l = {MPI_BYTE, (int)bytes, 0, bytes, bytes, 1, NULL};
    static const int PIECES[] = {3, 8, 24, 64, 1000, 5000, 65536};
    if (bytes == 0)
        kind = LAYOUT_BYTES;
    if (kind == LAYOUT_BYTES) {
        l.block = calloc(1, sizeof *l.block);
        l.block[0] = (struct block){0, bytes};
        return l;
    }
    size_t piece = PIECES[rnd_below(&seed, LEN(PIECES))];
    while (bytes / piece > 5000)
        piece *= 4;
    int regular = kind == LAYOUT_VECTOR || kind == LAYOUT_REPEATED;
    size_t gap = 1 + rnd_below(&seed, piece < 64 ? 2 * piece : 64);
    if (regular && bytes % piece)
        piece = bytes <= 5000 && bytes % 4 ? 1 : bytes % 4096 == 0 ? 4096 : bytes;
    l.blocks = (int)((bytes + piece - 1) / piece);
    l.block = calloc(l.blocks, sizeof *l.block);
    size_t at = regular ? 0 : rnd_below(&seed, 16), left = bytes;
    for (int i = 0; i < l.blocks; i++) {
        size_t now = left < piece ? left : piece;
        l.block[i] = (struct block){at, now};
        at += now + (regular ? gap : (size_t)rnd_below(&seed, (int)gap + 1));
        left -= now;
    }
    l.span = at;
    if (regular)
        layout_regular(&l, l.blocks, (int)piece, (int)(piece + gap), kind == LAYOUT_REPEATED);
    else
        layout_indexed(&l, kind == LAYOUT_REVERSED);
    return l;
}

static void layout_free(struct layout *l)
{
    if (l->owned)
        OK(MPI_Type_free(&l->type));
    free(l->block);
    l->block = NULL;
}

static void layout_fill(char *buf, const struct layout *l, uint64_t id)
{
    size_t done = 0;
    for (int i = 0; i < l->blocks; i++)
        for (size_t k = 0; k < l->block[i].bytes; k++)
            buf[l->block[i].at + k] = (char)pattern(id, done++);
}

/* Whether the first `bytes` of the stream are message `id` and all else is untouched; -1 or the stream's first wrong place. */
static long long layout_wrong(const char *buf, const struct layout *l, size_t bytes, uint64_t id)
{
    size_t done = 0, foreign = 0;
    for (int i = 0; i < l->blocks; i++)
        for (size_t k = 0; k < l->block[i].bytes; k++, done++) {
            unsigned char want = done < bytes ? pattern(id, done) : UNTOUCHED;
            if ((unsigned char)buf[l->block[i].at + k] != want)
                return (long long)done;
            foreign += want != UNTOUCHED;
        }
    for (size_t i = 0; i < l->span; i++)
        foreign -= (unsigned char)buf[i] != UNTOUCHED;
    return foreign ? (long long)done : -1; /* something stands between the blocks */
}
#endif
