/* Every kind of read and write moves the same data: by offset, individual and shared pointer, ordered, blocking, non-blocking, collective, split,
 * large counts; what the pointers and statuses say; the end of the file; errors of modes and arguments. */
#include "file.h"

enum { N = 1000 };
static int data[N], back[N];

static void fresh(int salt)
{
    for (int i = 0; i < N; i++) {
        data[i] = salt * 1000003 + check_rank * 10007 + i;
        back[i] = -1;
    }
}

static void same(int salt, int rank, const int *got, int count, const char *what)
{
    for (int i = 0; i < count; i++)
        if (got[i] != salt * 1000003 + rank * 10007 + i) {
            CHECK(0, "%s: item %d is %d", what, i, got[i]);
            return;
        }
}

static void meet(MPI_File fh) /* what is written is seen */
{
    OK(MPI_File_sync(fh));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_sync(fh));
}

static void explicit_offsets(MPI_File fh)
{
    MPI_Status st;
    MPI_Request rq[2];
    MPI_Offset at = (MPI_Offset)check_rank * N, half = N / 2;
    for (int way = 0; way < 6; way++) {
        fresh(way);
        switch (way) {
        case 0: OK(MPI_File_write_at(fh, at, data, N, MPI_INT, &st)); break;
        case 1: OK(MPI_File_write_at_all(fh, at, data, N, MPI_INT, &st)); break;
        case 2:
            OK(MPI_File_iwrite_at(fh, at, data, N / 2, MPI_INT, &rq[0]));
            OK(MPI_File_iwrite_at(fh, at + half, data + half, N / 2, MPI_INT, &rq[1]));
            OK(MPI_Wait(&rq[1], &st));
            EQ(moved(&st, MPI_INT), N / 2);
            OK(MPI_Wait(&rq[0], &st));
            break;
        case 3: OK(MPI_File_iwrite_at_all(fh, at, data, N, MPI_INT, rq)); OK(MPI_Wait(rq, &st)); break;
        case 4: OK(MPI_File_write_at_all_begin(fh, at, data, N, MPI_INT)); OK(MPI_File_write_at_all_end(fh, data, &st)); break;
        case 5: OK(MPI_File_write_at_all_c(fh, at, data, N, MPI_INT, &st)); break;
        }
        EQ(moved(&st, MPI_INT), way == 2 ? N / 2 : N);
        meet(fh);
        int other = (check_rank + 1) % check_size;
        at = (MPI_Offset)other * N;
        switch (way) {
        case 0: OK(MPI_File_read_at(fh, at, back, N, MPI_INT, &st)); break;
        case 1: OK(MPI_File_read_at_all(fh, at, back, N, MPI_INT, &st)); break;
        case 2: OK(MPI_File_iread_at(fh, at, back, N, MPI_INT, rq)); OK(MPI_Wait(rq, &st)); break;
        case 3: OK(MPI_File_iread_at_all(fh, at, back, N, MPI_INT, rq)); OK(MPI_Wait(rq, &st)); break;
        case 4: OK(MPI_File_read_at_all_begin(fh, at, back, N, MPI_INT)); OK(MPI_File_read_at_all_end(fh, back, &st)); break;
        case 5: OK(MPI_File_read_at_c(fh, at, back, N, MPI_INT, &st)); break;
        }
        EQ(moved(&st, MPI_INT), N);
        same(way, other, back, N, "explicit");
        at = (MPI_Offset)check_rank * N;
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void own_pointers(MPI_File fh)
{
    MPI_Status st;
    MPI_Request rq;
    MPI_Offset at = (MPI_Offset)check_rank * N, pos = -1;
    for (int way = 0; way < 5; way++) {
        fresh(10 + way);
        OK(MPI_File_seek(fh, at, MPI_SEEK_SET));
        for (int part = 0; part < 2; part++) {
            int *from = data + part * N / 2;
            switch (way) {
            case 0: OK(MPI_File_write(fh, from, N / 2, MPI_INT, &st)); break;
            case 1: OK(MPI_File_write_all(fh, from, N / 2, MPI_INT, &st)); break;
            case 2: OK(MPI_File_iwrite(fh, from, N / 2, MPI_INT, &rq)); OK(MPI_Wait(&rq, &st)); break;
            case 3: OK(MPI_File_iwrite_all(fh, from, N / 2, MPI_INT, &rq)); OK(MPI_Wait(&rq, &st)); break;
            case 4: OK(MPI_File_write_all_begin(fh, from, N / 2, MPI_INT)); OK(MPI_File_write_all_end(fh, from, &st)); break;
            }
            EQ(moved(&st, MPI_INT), N / 2);
            OK(MPI_File_get_position(fh, &pos));
            EQ(pos, at + (part + 1) * N / 2);
        }
        meet(fh);
        OK(MPI_File_seek(fh, -N, MPI_SEEK_CUR));
        switch (way) {
        case 0: OK(MPI_File_read(fh, back, N, MPI_INT, &st)); break;
        case 1: OK(MPI_File_read_all(fh, back, N, MPI_INT, &st)); break;
        case 2: OK(MPI_File_iread(fh, back, N, MPI_INT, &rq)); OK(MPI_Wait(&rq, &st)); break;
        case 3: OK(MPI_File_iread_all(fh, back, N, MPI_INT, &rq)); OK(MPI_Wait(&rq, &st)); break;
        case 4: OK(MPI_File_read_all_begin(fh, back, N, MPI_INT)); OK(MPI_File_read_all_end(fh, back, &st)); break;
        }
        EQ(moved(&st, MPI_INT), N);
        same(10 + way, check_rank, back, N, "individual");
        OK(MPI_File_get_position(fh, &pos));
        EQ(pos, at + N);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    OK(MPI_File_seek(fh, -3, MPI_SEEK_END));
    OK(MPI_File_get_position(fh, &pos));
    EQ(pos, (MPI_Offset)check_size * N - 3);
    FAILS(MPI_ERR_ARG, MPI_File_seek(fh, -4, MPI_SEEK_SET));
    FAILS(MPI_ERR_ARG, MPI_File_seek(fh, 0, 12345));
}

static void shared_pointer(MPI_File fh)
{
    MPI_Status st;
    MPI_Request rq;
    MPI_Offset pos = -1;
    OK(MPI_File_seek_shared(fh, 5, MPI_SEEK_SET));
    OK(MPI_File_get_position_shared(fh, &pos));
    EQ(pos, 5);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int way = 0; way < 2; way++) { /* pieces in any order, each whole and once */
        fresh(20 + way);
        OK(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET));
        for (int i = 0; i < 20; i++) {
            int piece[10];
            for (int k = 0; k < 10; k++)
                piece[k] = check_rank * 20 + i;
            if (way)
                OK(MPI_File_write_shared(fh, piece, 10, MPI_INT, &st));
            else {
                OK(MPI_File_iwrite_shared(fh, piece, 10, MPI_INT, &rq));
                OK(MPI_Wait(&rq, &st));
            }
            EQ(moved(&st, MPI_INT), 10);
        }
        meet(fh);
        OK(MPI_File_get_position_shared(fh, &pos));
        EQ(pos, check_size * 200);
        MPI_Barrier(MPI_COMM_WORLD);
        OK(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET));
        char *seen = calloc(20, (size_t)check_size), *all = calloc(20, (size_t)check_size);
        for (int i = 0; i < 20; i++) {
            int piece[10];
            if (way)
                OK(MPI_File_read_shared(fh, piece, 10, MPI_INT, &st));
            else {
                OK(MPI_File_iread_shared(fh, piece, 10, MPI_INT, &rq));
                OK(MPI_Wait(&rq, &st));
            }
            for (int k = 1; k < 10; k++)
                EQ(piece[k], piece[0]);
            if (piece[0] >= 0 && piece[0] < 20 * check_size)
                seen[piece[0]]++;
        }
        OK(MPI_Allreduce(seen, all, 20 * check_size, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < 20 * check_size; i++)
            EQ(all[i], 1);
        free(seen);
        free(all);
    }
    for (int split = 0; split < 2; split++) { /* rank r has 10 + r items */
        fresh(30 + split);
        int count = 10 + check_rank, before = 10 * check_rank + check_rank * (check_rank - 1) / 2;
        OK(MPI_File_seek_shared(fh, 7, MPI_SEEK_SET));
        if (split) {
            OK(MPI_File_write_ordered_begin(fh, data, count, MPI_INT));
            OK(MPI_File_write_ordered_end(fh, data, &st));
        } else
            OK(MPI_File_write_ordered(fh, data, count, MPI_INT, &st));
        EQ(moved(&st, MPI_INT), count);
        meet(fh);
        OK(MPI_File_read_at(fh, 7 + before, back, count, MPI_INT, &st));
        same(30 + split, check_rank, back, count, "ordered, written");
        OK(MPI_File_seek_shared(fh, 7, MPI_SEEK_SET));
        memset(back, 0, sizeof back);
        if (split) {
            OK(MPI_File_read_ordered_begin(fh, back, count, MPI_INT));
            OK(MPI_File_read_ordered_end(fh, back, &st));
        } else
            OK(MPI_File_read_ordered(fh, back, count, MPI_INT, &st));
        EQ(moved(&st, MPI_INT), count);
        same(30 + split, check_rank, back, count, "ordered, read");
        OK(MPI_File_get_position_shared(fh, &pos));
        EQ(pos, 7 + 10 * check_size + check_size * (check_size - 1) / 2);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (check_size > 1) /* the oracle's ranks get out of step */
        STRICT(FAILS(MPI_ERR_NOT_SAME, MPI_File_seek_shared(fh, check_rank, MPI_SEEK_SET)));
}

static void end_of_file(MPI_File fh)
{
    MPI_Status st;
    OK(MPI_File_set_size(fh, 10 * sizeof(int)));
    fresh(40);
    if (check_rank == 0)
        OK(MPI_File_write_at(fh, 0, data, 10, MPI_INT, MPI_STATUS_IGNORE));
    meet(fh);
    for (int all = 0; all < 2; all++) {
        memset(back, 0x55, sizeof back);
        if (all)
            OK(MPI_File_read_at_all(fh, 4, back, 20, MPI_INT, &st));
        else
            OK(MPI_File_read_at(fh, 4, back, 20, MPI_INT, &st));
        EQ(moved(&st, MPI_INT), 6);
        EQ(back[6], 0x55555555);
        for (int i = 0; i < 6; i++)
            EQ(back[i], 40 * 1000003 + 4 + i);
        OK(MPI_File_read_at(fh, 100, back, 1, MPI_INT, &st));
        EQ(moved(&st, MPI_INT), 0);
        OK(MPI_File_write_at(fh, 3, data, 0, MPI_INT, &st));
        EQ(moved(&st, MPI_INT), 0);
    }
}

static void refused(MPI_File fh)
{
    MPI_Request rq;
    MPI_Datatype late;
    OK(MPI_Type_contiguous(2, MPI_INT, &late));
    FAILS(MPI_ERR_ARG, MPI_File_read_at(fh, -1, back, 1, MPI_INT, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_ARG, MPI_File_iwrite_at(fh, -1, data, 1, MPI_INT, &rq));
    FAILS2(MPI_ERR_COUNT, MPI_ERR_ARG, MPI_File_write(fh, data, -1, MPI_INT, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_TYPE, MPI_File_write(fh, data, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_TYPE, MPI_File_write(fh, data, 1, late, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_IO, MPI_File_write(fh, data, 3, MPI_CHAR, MPI_STATUS_IGNORE)); /* etypes are ints */
    /* the oracle crashes */
    STRICT(FAILS(MPI_ERR_FILE, MPI_File_read(MPI_FILE_NULL, back, 1, MPI_INT, MPI_STATUS_IGNORE)));
    /* split collectives */
    STRICT(FAILS(MPI_ERR_IO, MPI_File_read_all_end(fh, back, MPI_STATUS_IGNORE)));
    OK(MPI_File_write_at_all_begin(fh, check_rank, data, 1, MPI_INT));
    STRICT(FAILS(MPI_ERR_IO, MPI_File_write_at_all_begin(fh, check_rank, data, 1, MPI_INT)));
    STRICT(FAILS(MPI_ERR_IO, MPI_File_write_all_end(fh, data, MPI_STATUS_IGNORE)));
    STRICT(FAILS(MPI_ERR_IO, MPI_File_close(&fh)));
    OK(MPI_File_write_at_all_end(fh, data, MPI_STATUS_IGNORE));
    OK(MPI_Type_free(&late));
}

static void modes(const char *name)
{
    MPI_File fh = file_open(name, MPI_MODE_RDONLY);
    MPI_Offset pos = -1;
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write_at(fh, 0, data, 1, MPI_INT, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write_all(fh, data, 1, MPI_INT, MPI_STATUS_IGNORE));
    STRICT(FAILS(MPI_ERR_READ_ONLY, MPI_File_set_size(fh, 1)));
    OK(MPI_File_close(&fh));
    fh = file_open(name, MPI_MODE_WRONLY);
    FAILS(MPI_ERR_ACCESS, MPI_File_read_at(fh, 0, back, 1, MPI_INT, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_ACCESS, MPI_File_read_shared(fh, back, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&fh));
    fh = file_open(name, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_read_at(fh, 0, back, 1, MPI_INT, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_read(fh, back, 1, MPI_INT, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_seek(fh, 0, MPI_SEEK_SET));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_get_position(fh, &pos));
    OK(MPI_File_read_ordered(fh, back, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&fh));
    if (check_rank == 0)
        CHECK(truncate(name, 24) == 0);
    fh = file_open(name, MPI_MODE_WRONLY | MPI_MODE_APPEND);
    OK(MPI_File_get_position(fh, &pos));
    EQ(pos, 24);
    OK(MPI_File_get_position_shared(fh, &pos));
    EQ(pos, 24);
    OK(MPI_File_close(&fh));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    const char *name = file_name("access");
    MPI_File fh = file_open(name, MPI_MODE_RDWR | MPI_MODE_CREATE);
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    explicit_offsets(fh);
    own_pointers(fh);
    shared_pointer(fh);
    end_of_file(fh);
    refused(fh);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_atomicity(fh, 1));
    explicit_offsets(fh);
    OK(MPI_File_set_size(fh, (MPI_Offset)check_size * N * (MPI_Offset)sizeof(int)));
    own_pointers(fh);
    shared_pointer(fh);
    OK(MPI_File_close(&fh));
    modes(name);
    if (check_rank == 0)
        OK(MPI_File_delete(name, MPI_INFO_NULL));
    return check_done();
}
