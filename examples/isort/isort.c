/* Distributed integer sort in the style of the NAS benchmark IS: a bucket sort of 2^SIZE integer keys.
 *
 * Keys: the linear congruential sequence x' = 5^13 x mod 2^46 from x = 314159265, four values a key; the key is the mean of the four,
 * scaled to [0, 2^KEYBITS), so that keys pile up in the middle and equal key ranges would be unequal work. Each rank jumps to its part
 * of the sequence, so the keys do not depend on the number of ranks.
 *
 * One sort:  1. histogram of our keys over 2^BUCKETBITS buckets, summed over all ranks (MPI_Allreduce)
 *            2. every rank gets a run of whole buckets with about the same number of keys
 *            3. keys in bucket order, counts (MPI_Alltoall), keys (MPI_Alltoallv)
 *            4. counting sort of what arrived
 * Verified after the last sort: order within a rank, order between ranks, number of keys, and two checksums of the keys before and
 * after. The program returns 1 when any of them is wrong.
 *
 * Usage: isort [--size LOG2KEYS] [--keybits B] [--bucketbits B] [--repeats R] [--corrupt order|key]    (default 20, 19, 10, 5)
 * --corrupt spoils the result before it is verified: the program must notice. */
#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t n;           /* keys that we hold */
    uint32_t first, end; /* they lie in [first, end) */
    uint32_t *key;       /* in order */
} sorted;

static int rank, size;
static int size_bits = 20, key_bits = 19, bucket_bits = 10, repeats = 5;
static const char *corrupt = "";

static void *need(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "isort: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return p;
}

/* --- keys --- */
#define MODULUS_MASK ((UINT64_C(1) << 46) - 1)
#define MULTIPLIER UINT64_C(1220703125) /* 5^13 */
#define SEED UINT64_C(314159265)
/* The multiplication wraps at 2^64, a multiple of 2^46: masking gives the product modulo 2^46. */
static uint64_t power(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base = base * base & MODULUS_MASK)
        if (exponent & 1) result = result * base & MODULUS_MASK;
    return result;
}
static void make_keys(uint32_t *key, int64_t first, int64_t n)
{
    uint64_t x = SEED * power(MULTIPLIER, 4 * (uint64_t)first) & MODULUS_MASK;
    for (int64_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (int j = 0; j < 4; j++) sum += x = x * MULTIPLIER & MODULUS_MASK;
        key[i] = (uint32_t)(sum >> (48 - key_bits)); /* sum < 4 * 2^46 */
    }
}

/* --- the sort --- */
/* Bucket at which each rank starts: the first whose keys before it reach rank/size of all keys. */
static void share_buckets(const int64_t *histogram, int buckets, int *start)
{
    int64_t total = INT64_C(1) << size_bits, before = 0;
    int b = 0;
    for (int r = 0; r < size; r++) {
        int64_t goal = total / size * r;
        while (b < buckets && before < goal) before += histogram[b++];
        start[r] = b;
    }
    start[size] = buckets;
}
/* Our keys in the order of their buckets; `place[b]` becomes the end of bucket b. */
static void by_bucket(const uint32_t *key, int64_t n, const int64_t *count, int buckets, uint32_t *out, int64_t *place)
{
    int shift = key_bits - bucket_bits;
    for (int64_t b = 0, at = 0; b < buckets; at += count[b++]) place[b] = at;
    for (int64_t i = 0; i < n; i++) out[place[key[i] >> shift]++] = key[i];
}
static void counting_sort(uint32_t *key, int64_t n, uint32_t first, uint32_t end, int64_t *count)
{
    memset(count, 0, (end - first) * sizeof *count);
    for (int64_t i = 0; i < n; i++) count[key[i] - first]++;
    int64_t at = 0;
    for (uint32_t k = first; k < end; k++)
        for (int64_t c = count[k - first]; c > 0; c--) key[at++] = k;
}
static void sort(const uint32_t *key, int64_t n, sorted *result)
{
    int buckets = 1 << bucket_bits, shift = key_bits - bucket_bits;
    int64_t *mine = need(buckets * sizeof *mine), *all = need(buckets * sizeof *all), *place = need(buckets * sizeof *place);
    int *start = need((size + 1) * sizeof *start);
    memset(mine, 0, buckets * sizeof *mine);
    for (int64_t i = 0; i < n; i++) mine[key[i] >> shift]++;
    MPI_Allreduce(mine, all, buckets, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    share_buckets(all, buckets, start);

    uint32_t *out = need(n * sizeof *out);
    by_bucket(key, n, mine, buckets, out, place);
    int *sn = need(4 * size * sizeof(int)), *sd = sn + size, *rn = sd + size, *rd = rn + size;
    for (int r = 0; r < size; r++) {
        int64_t from = start[r] ? place[start[r] - 1] : 0, to = start[r + 1] ? place[start[r + 1] - 1] : 0;
        sd[r] = (int)from, sn[r] = (int)(to - from);
    }
    MPI_Alltoall(sn, 1, MPI_INT, rn, 1, MPI_INT, MPI_COMM_WORLD);
    int64_t arriving = 0;
    for (int r = 0; r < size; arriving += rn[r++]) rd[r] = (int)arriving; /* checked below */
    if (arriving > INT32_MAX || n > INT32_MAX) {
        fprintf(stderr, "isort: rank %d would hold more keys than an int counts: use more ranks\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    result->n = arriving;
    result->first = (uint32_t)start[rank] << shift, result->end = (uint32_t)start[rank + 1] << shift;
    result->key = need(arriving * sizeof *result->key);
    MPI_Alltoallv(out, sn, sd, MPI_UINT32_T, result->key, rn, rd, MPI_UINT32_T, MPI_COMM_WORLD);

    int64_t *count = need((size_t)(result->end - result->first) * sizeof *count);
    counting_sort(result->key, arriving, result->first, result->end, count);
    free(count); free(sn); free(out); free(start); free(place); free(all); free(mine);
}

/* --- verification --- */
static uint64_t mixed(uint64_t z)
{
    z = (z + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 31)) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ (z >> 29);
}
/* Number, sum and sum of a mixed form of the keys of all ranks: equal for two lists that are permutations of each other. */
static void checksum(const uint32_t *key, int64_t n, uint64_t sums[3])
{
    uint64_t mine[3] = {(uint64_t)n, 0, 0};
    for (int64_t i = 0; i < n; i++) mine[1] += key[i], mine[2] += mixed(key[i]);
    MPI_Allreduce(mine, sums, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}
/* Number of ranks that see something out of order. */
static int disorder(const sorted *s)
{
    int wrong = 0, all;
    int64_t highest_here = s->n ? (int64_t)s->key[s->n - 1] : -1, below = -1;
    for (int64_t i = 1; i < s->n; i++) wrong |= s->key[i - 1] > s->key[i];
    MPI_Exscan(&highest_here, &below, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (rank && s->n) wrong |= below > (int64_t)s->key[0];
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Makes the list wrong on the rank with the lowest keys: two that differ swap places, or one takes the value of the next. */
static void spoil(sorted *s)
{
    for (int64_t i = 1; i < s->n && rank == 0; i++) {
        uint32_t low = s->key[i - 1], high = s->key[i];
        if (low == high) continue;
        s->key[i - 1] = high;
        if (!strcmp(corrupt, "order")) s->key[i] = low;
        break;
    }
}

static void usage(void)
{
    if (!rank) fprintf(stderr, "usage: isort [--size LOG2KEYS 1..34] [--keybits 1..31] [--bucketbits B <= keybits, 20] [--repeats R]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}
static void options(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        if (!strcmp(argv[i], "--corrupt") && i + 1 < argc) {
            corrupt = argv[i + 1];
            continue;
        }
        int *to = !strcmp(argv[i], "--size") ? &size_bits : !strcmp(argv[i], "--keybits") ? &key_bits :
                  !strcmp(argv[i], "--bucketbits") ? &bucket_bits : !strcmp(argv[i], "--repeats") ? &repeats : NULL;
        if (!to || i + 1 == argc) usage();
        *to = atoi(argv[i + 1]);
    }
    if (bucket_bits > key_bits) bucket_bits = key_bits;
    if (size_bits < 1 || size_bits > 34 || key_bits < 1 || key_bits > 31 || bucket_bits < 0 || bucket_bits > 20 || repeats < 1) usage();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    options(argc, argv);
    int64_t total = INT64_C(1) << size_bits, first = total / size * rank + (rank < total % size ? rank : total % size);
    int64_t n = total / size + (rank < total % size);
    uint32_t *key = need(n * sizeof *key);
    make_keys(key, first, n);
    uint64_t before[3], after[3];
    checksum(key, n, before);

    sorted s = {0, 0, 0, NULL};
    sort(key, n, &s); /* warms up */
    MPI_Barrier(MPI_COMM_WORLD);
    double t = MPI_Wtime(), seconds;
    for (int i = 0; i < repeats; i++) {
        free(s.key);
        sort(key, n, &s);
    }
    t = (MPI_Wtime() - t) / repeats;
    MPI_Allreduce(&t, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);

    if (*corrupt) spoil(&s);
    int wrong = disorder(&s);
    checksum(s.key, s.n, after);
    int good = !wrong && !memcmp(before, after, sizeof before) && before[0] == (uint64_t)total;
    int64_t most;
    MPI_Allreduce(&s.n, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (!rank) {
        printf("isort 2^%d keys of %d bits: most on a rank %" PRId64 ", sum %" PRIu64 ", ranks out of order %d: %s\n", size_bits, key_bits, most,
               after[1], wrong, good ? "right" : "WRONG");
        printf("RESULT isort ranks=%d seconds=%.6f mkeys_per_s=%.3f\n", size, seconds, total / seconds * 1e-6);
    }
    free(key); free(s.key);
    MPI_Finalize();
    return !good;
}
