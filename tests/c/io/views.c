/* Random views against a naive walk: each slot of a tile belongs to one rank or to nobody; every kind of collective and independent access,
 * memory with holes, and every way to do it (hints, atomic mode). Nobody's bytes stay as they were. */
#include "file.h"

enum { SLOTS_MAX = 60, TILES_MAX = 40, ROUNDS = 60, ROOM = SLOTS_MAX * TILES_MAX * 3 };

static struct plan {
    int slots, owner[SLOTS_MAX], disp, tiles, unit; /* a slot is `unit` ints */
} plan;
static int own[SLOTS_MAX], owned; /* this rank's slots, ascending */

static int number(int rank, int k) { return (rank + 1) << 20 | k; }

/* Where int `k` of the stream of this rank lies in the file. */
static MPI_Offset naive(int k)
{
    int item = k / plan.unit;
    return plan.disp + ((MPI_Offset)(item / owned) * plan.slots * plan.unit + own[item % owned] * plan.unit + k % plan.unit) * 4;
}

static MPI_Datatype make_filetype(MPI_Datatype etype, int nested)
{
    MPI_Datatype list, tile;
    int two = nested && owned > 1;
    if (two) { /* the same by a struct of two lists */
        MPI_Datatype parts[2];
        int lens[2] = {1, 1};
        MPI_Aint at[2] = {0, 0};
        OK(MPI_Type_create_indexed_block(owned / 2, 1, own, etype, &parts[0]));
        OK(MPI_Type_create_indexed_block(owned - owned / 2, 1, own + owned / 2, etype, &parts[1]));
        OK(MPI_Type_create_struct(2, lens, at, parts, &list));
        OK(MPI_Type_free(&parts[0]));
        OK(MPI_Type_free(&parts[1]));
    } else
        OK(MPI_Type_create_indexed_block(owned, 1, own, etype, &list));
    OK(MPI_Type_create_resized(list, 0, (MPI_Aint)plan.slots * plan.unit * 4, &tile));
    OK(MPI_Type_free(&list));
    if (nested) {
        list = tile;
        OK(MPI_Type_contiguous(3, list, &tile));
        OK(MPI_Type_free(&list));
    }
    OK(MPI_Type_commit(&tile));
    return tile;
}

static const char *hints[][6] = {
    {NULL},
    {"romio_cb_write", "enable", "romio_cb_read", "enable", NULL},
    {"romio_cb_write", "disable", "romio_cb_read", "disable", "romio_ds_read", "disable"},
    {"romio_ds_write", "enable", "romio_ds_read", "enable", NULL},
};

static MPI_File open_with(const char *name, int way)
{
    MPI_Info info;
    MPI_File fh;
    OK(MPI_Info_create(&info));
    for (int i = 0; i < 6 && hints[way][i]; i += 2)
        OK(MPI_Info_set(info, hints[way][i], hints[way][i + 1]));
    OK(MPI_Info_set(info, "cb_nodes", way & 1 ? "1" : "3"));
    OK(MPI_Info_set(info, "cb_buffer_size", "4096"));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &fh));
    OK(MPI_Info_free(&info));
    return fh;
}

static void access_part(MPI_File fh, int write, int kind, MPI_Offset at, void *buf, int count, MPI_Datatype type, MPI_Status *st)
{
    MPI_Request rq;
    OK(MPI_File_seek(fh, at, MPI_SEEK_SET));
    switch (kind) {
    case 0: OK(write ? MPI_File_write_at_all(fh, at, buf, count, type, st) : MPI_File_read_at_all(fh, at, buf, count, type, st)); break;
    case 1: OK(write ? MPI_File_write_all(fh, buf, count, type, st) : MPI_File_read_all(fh, buf, count, type, st)); break;
    case 2: OK(write ? MPI_File_write_at(fh, at, buf, count, type, st) : MPI_File_read_at(fh, at, buf, count, type, st)); break;
    case 3:
        OK(write ? MPI_File_iwrite_at_all(fh, at, buf, count, type, &rq) : MPI_File_iread_at_all(fh, at, buf, count, type, &rq));
        OK(MPI_Wait(&rq, st));
        break;
    case 4:
        OK(write ? MPI_File_write_at_all_begin(fh, at, buf, count, type) : MPI_File_read_at_all_begin(fh, at, buf, count, type));
        OK(write ? MPI_File_write_at_all_end(fh, buf, st) : MPI_File_read_at_all_end(fh, buf, st));
        break;
    }
}

static void one_round(const char *name, uint64_t *seed, int round)
{
    static int buf[2 * ROOM], expect[ROOM], found[ROOM];
    MPI_Status st;
    plan.slots = on_mpich() ? check_size + rnd_below(seed, SLOTS_MAX - check_size) : 1 + rnd_below(seed, SLOTS_MAX);
    plan.unit = 1 + rnd_below(seed, 3);
    plan.disp = 4 * rnd_below(seed, 50);
    plan.tiles = 1 + rnd_below(seed, TILES_MAX - 1);
    for (int i = 0; i < plan.slots; i++)
        plan.owner[i] = rnd_below(seed, check_size + (round & 1)) - (round & 1);
    for (int i = 0; on_mpich() && i < check_size; i++) /* the oracle fails an assertion of its own if a rank sees nothing */
        plan.owner[i] = i;
    int kind = rnd_below(seed, 5), way = rnd_below(seed, LEN(hints)), nested = rnd_below(seed, 2), holes = rnd_below(seed, 2);
    int atomic = rnd_below(seed, 5) == 0, cut = rnd_below(seed, 1000);
    owned = 0;
    for (int i = 0; i < plan.slots; i++)
        if (plan.owner[i] == check_rank)
            own[owned++] = i;
    memset(expect, 0xab, sizeof expect);
    if (check_rank == 0) {
        FILE *f = fopen(name, "wb");
        CHECK(f && fwrite(expect, sizeof expect, 1, f) == 1 && fclose(f) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File fh = open_with(name, way);
    MPI_Datatype etype, filetype, memory;
    OK(MPI_Type_contiguous(plan.unit, MPI_INT, &etype));
    OK(MPI_Type_commit(&etype));
    filetype = make_filetype(etype, nested);
    OK(MPI_File_set_view(fh, plan.disp, etype, filetype, "native", MPI_INFO_NULL));
    OK(MPI_File_set_atomicity(fh, atomic));
    OK(MPI_Type_create_resized(MPI_INT, 0, holes ? 8 : 4, &memory));
    OK(MPI_Type_commit(&memory));
    int total = owned * plan.tiles, step = 1 + holes, first = (int)((long long)total * cut / 1000);
    for (int k = 0; k < total * plan.unit; k++)
        buf[k * step] = number(check_rank, k);
    for (int part = 0; part < 2; part++) {
        int from = part ? first : 0, count = (part ? total - first : first) * plan.unit;
        access_part(fh, 1, kind, from, buf + from * plan.unit * step, count, memory, &st);
        EQ(moved(&st, MPI_INT), count);
    }
    OK(MPI_File_sync(fh));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int r = 0; r < check_size; r++)
        for (int tile = 0, k = 0; tile < plan.tiles; tile++)
            for (int i = 0; i < plan.slots; i++)
                for (int u = 0; plan.owner[i] == r && u < plan.unit; u++)
                    expect[plan.disp / 4 + (tile * plan.slots + i) * plan.unit + u] = number(r, k++);
    EQ(file_bytes(name, (unsigned char *)found, sizeof found), sizeof found);
    for (int i = 0; i < ROOM; i++)
        if (found[i] != expect[i]) {
            CHECK(0, "round %d kind %d way %d nested %d holes %d atomic %d: int %d is %x, expected %x", round, kind, way, nested, holes, atomic, i,
                  (unsigned)found[i], (unsigned)expect[i]);
            break;
        }
    memset(buf, 0, sizeof buf);
    access_part(fh, 0, (kind + round) % 5, first, buf, (total - first) * plan.unit, memory, &st);
    EQ(moved(&st, MPI_INT), (total - first) * plan.unit);
    for (int k = 0; k < (total - first) * plan.unit; k++)
        if (buf[k * step] != number(check_rank, first * plan.unit + k) || (holes && buf[k * step + 1])) {
            CHECK(0, "round %d kind %d way %d: read int %d is %x", round, (kind + round) % 5, way, k, (unsigned)buf[k * step]);
            break;
        }
    if (owned) {
        MPI_Offset byte = -1;
        OK(MPI_File_get_byte_offset(fh, total / 2, &byte));
        EQ(byte, naive(total / 2 * plan.unit));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* all cut the file at the same place */
    MPI_Offset size = plan.disp + (MPI_Offset)plan.slots * plan.unit * 4 * plan.tiles / 2 / 4 * 4, end = -1;
    OK(MPI_File_set_size(fh, size));
    int shown = 0;
    while (owned && shown < total * plan.unit && naive(shown) < size)
        shown++;
    if (owned) {
        OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
        OK(MPI_File_get_position(fh, &end));
        EQ(end, (shown + plan.unit - 1) / plan.unit);
    }
    access_part(fh, 0, (kind + 1) % 5, 0, buf, total * plan.unit, memory, &st);
    STRICT(EQ(moved(&st, MPI_INT), shown)); /* the oracle's status counts what lies behind the end */
    OK(MPI_Type_free(&etype));
    OK(MPI_Type_free(&filetype));
    OK(MPI_Type_free(&memory));
    OK(MPI_File_close(&fh));
}

/* The view that MPI_File_get_view returns, and views that are refused. */
static void what_is_a_view(const char *name)
{
    MPI_File fh = open_with(name, 0);
    MPI_Datatype etype, filetype, bad, copy, mine;
    MPI_Offset disp = -1;
    char rep[MPI_MAX_DATAREP_STRING];
    int disps[2] = {2, 0}, ascending[2] = {0, 2}, n, a, d, combiner;
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, rep));
    EQ(disp, 0);
    CHECK(etype == MPI_BYTE && filetype == MPI_BYTE);
    STREQ(rep, "native");
    OK(MPI_Type_create_indexed_block(2, 1, ascending, MPI_INT, &mine));
    OK(MPI_Type_commit(&mine));
    OK(MPI_File_set_view(fh, 12, MPI_INT, mine, "native", MPI_INFO_NULL));
    OK(MPI_Type_free(&mine)); /* the file keeps it */
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, rep));
    EQ(disp, 12);
    CHECK(etype == MPI_INT);
    OK(MPI_Type_get_envelope(filetype, &n, &a, &d, &combiner));
    CHECK(combiner != MPI_COMBINER_NAMED);
    OK(MPI_Type_dup(filetype, &copy));
    OK(MPI_Type_free(&copy));
    OK(MPI_Type_free(&filetype));
    FAILS(MPI_ERR_ARG, MPI_File_set_view(fh, -7, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_UNSUPPORTED_DATAREP, MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "roman", MPI_INFO_NULL));
    OK(MPI_Type_create_indexed_block(2, 1, disps, MPI_INT, &bad));
    OK(MPI_Type_commit(&bad));
    STRICT(FAILS(MPI_ERR_TYPE, MPI_File_set_view(fh, 0, MPI_INT, bad, "native", MPI_INFO_NULL))); /* descends */
    OK(MPI_Type_free(&bad));
    disps[1] = -2;
    OK(MPI_Type_create_indexed_block(1, 1, disps + 1, MPI_INT, &bad));
    OK(MPI_Type_commit(&bad));
    STRICT(FAILS(MPI_ERR_TYPE, MPI_File_set_view(fh, 0, MPI_INT, bad, "native", MPI_INFO_NULL))); /* negative */
    OK(MPI_Type_free(&bad));
    STRICT(FAILS(MPI_ERR_TYPE, MPI_File_set_view(fh, 0, MPI_INT, MPI_CHAR, "native", MPI_INFO_NULL))); /* no whole etype */
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, rep)); /* the old one is in force */
    EQ(disp, 12);
    OK(MPI_Type_free(&filetype));
    OK(MPI_File_close(&fh));
}

/* A view that is only read may show bytes twice: rank 0 has one, the others see every second int. */
static void shows_bytes_twice(const char *name)
{
    enum { INTS = 4096 };
    static int data[INTS], got[3 * INTS];
    if (check_rank == 0) {
        for (int i = 0; i < INTS; i++)
            data[i] = number(0, i);
        int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        EQ(write(fd, data, sizeof data), (long)sizeof data);
        close(fd);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int lens[3] = {6, 2, 4}, begins[3] = {0, 1, 4}, items = check_rank ? 1 : 12, extent = check_rank ? 2 : 10;
    MPI_Datatype list, tile;
    if (check_rank)
        OK(MPI_Type_dup(MPI_INT, &list));
    else
        OK(MPI_Type_indexed(3, lens, begins, MPI_INT, &list));
    OK(MPI_Type_create_resized(list, 0, (MPI_Aint)extent * 4, &tile));
    OK(MPI_Type_commit(&tile));
    OK(MPI_Type_free(&list));
    for (int way = 0; way < 4; way++) {
        MPI_Info info;
        MPI_File fh;
        MPI_Status status;
        OK(MPI_Info_create(&info));
        for (int i = 0; i < 6 && hints[way][i]; i += 2)
            OK(MPI_Info_set(info, hints[way][i], hints[way][i + 1]));
        OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, info, &fh));
        OK(MPI_Info_free(&info));
        OK(MPI_File_set_view(fh, 0, MPI_INT, tile, "native", MPI_INFO_NULL));
        for (int all = 0; all < 2; all++) {
            int first = 5, count = (INTS / extent - 2) * items - first;
            memset(got, 0, sizeof got);
            OK(all ? MPI_File_read_at_all(fh, first, got, count, MPI_INT, &status) : MPI_File_read_at(fh, first, got, count, MPI_INT, &status));
            EQ(moved(&status, MPI_INT), count);
            for (int i = 0; i < count; i++) {
                int k = (first + i) % items, at = k < 6 ? k : k < 8 ? k - 5 : k - 4;
                EQ(got[i], number(0, (first + i) / items * extent + at));
            }
        }
        OK(MPI_File_close(&fh));
    }
    OK(MPI_Type_free(&tile));
}

/* A filetype whose extent is smaller than its data, of which one tile is used: HDF5 makes such types. */
static void has_a_small_extent(const char *name)
{
    enum { INTS = 200 };
    int data[INTS], got[INTS];
    MPI_Datatype strided, tile;
    OK(MPI_Type_vector(INTS, 1, check_size, MPI_INT, &strided));
    OK(MPI_Type_create_resized(strided, 0, 4, &tile));
    OK(MPI_Type_commit(&tile));
    OK(MPI_Type_free(&strided));
    for (int way = 0; way < 4; way++) {
        MPI_File fh = open_with(name, way);
        MPI_Status status;
        OK(MPI_File_set_size(fh, 0));
        OK(MPI_File_set_view(fh, (MPI_Offset)check_rank * 4, MPI_INT, tile, "native", MPI_INFO_NULL));
        for (int i = 0; i < INTS; i++)
            data[i] = number(check_rank, i + way), got[i] = 0;
        OK(way % 2 ? MPI_File_write_at_all(fh, 0, data, INTS, MPI_INT, &status) : MPI_File_write_at(fh, 0, data, INTS, MPI_INT, &status));
        EQ(moved(&status, MPI_INT), INTS);
        OK(MPI_File_sync(fh));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_File_sync(fh));
        OK(way % 2 ? MPI_File_read_at(fh, 0, got, INTS, MPI_INT, &status) : MPI_File_read_at_all(fh, 0, got, INTS, MPI_INT, &status));
        EQ(moved(&status, MPI_INT), INTS);
        for (int i = 0; i < INTS; i++)
            EQ(got[i], data[i]);
        EQ(file_size(name), (long)INTS * check_size * 4);
        OK(MPI_File_close(&fh));
    }
    OK(MPI_Type_free(&tile));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    const char *name = file_name("views");
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 12345;
    for (int round = 0; round < ROUNDS; round++)
        one_round(name, &seed, round);
    what_is_a_view(name);
    STRICT(shows_bytes_twice(name));
    has_a_small_extent(name);
    if (check_rank == 0)
        OK(MPI_File_delete(name, MPI_INFO_NULL));
    return check_done();
}
