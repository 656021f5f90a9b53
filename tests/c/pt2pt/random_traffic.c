/* Seeded random traffic among all ranks: random size, tag, mode, communicator; every receiver knows what must come. */
#include "check.h"
enum { STEPS = 60, PER = 6, TAGS = 3, COMMS = 2 };

struct plan { int from, to, tag, comm, mode, bytes; };

static const int SIZES[] = {0, 1, 8, 100, 2048, 5000, 20000, 70000, 200000};

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    uint64_t state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    MPI_Comm comm[COMMS] = {MPI_COMM_WORLD};
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm[1]));
    for (int step = 0; step < STEPS; step++) {
        int n = PER * check_size;
        struct plan *plan = calloc(n, sizeof *plan);
        MPI_Request *rq = calloc(2 * n, sizeof *rq);
        char **mem = calloc(2 * n, sizeof *mem);
        int *what = calloc(2 * n, sizeof *what), used = 0;
        for (int i = 0; i < n; i++) {
            plan[i] = (struct plan){rnd_below(&state, check_size), rnd_below(&state, check_size), rnd_below(&state, TAGS),
                rnd_below(&state, COMMS), rnd_below(&state, 3), SIZES[rnd_below(&state, LEN(SIZES))]};
        }
        int recv_first = rnd_below(&state, 3);
        for (int phase = 0; phase < 2; phase++) {
            int receiving = recv_first == 0 ? phase == 0 : recv_first == 1 ? phase == 1 : (phase == (check_rank & 1));
            for (int i = 0; i < n; i++) {
                struct plan *p = &plan[i];
                if (receiving && p->to == check_rank) {
                    mem[used] = alloc(p->bytes);
                    OK(MPI_Irecv(mem[used], p->bytes, MPI_BYTE, p->from, p->tag, comm[p->comm], &rq[used]));
                    what[used++] = i + 1;
                }
                if (!receiving && p->from == check_rank) {
                    mem[used] = alloc(p->bytes);
                    fill(mem[used], p->bytes, (uint64_t)step * 1000 + i);
                    if (p->mode == 1)
                        OK(MPI_Issend(mem[used], p->bytes, MPI_BYTE, p->to, p->tag, comm[p->comm], &rq[used]));
                    else
                        OK(MPI_Isend(mem[used], p->bytes, MPI_BYTE, p->to, p->tag, comm[p->comm], &rq[used]));
                    what[used++] = -1 - i;
                }
            }
        }
        MPI_Status *st = calloc(used + 1, sizeof *st);
        OK(MPI_Waitall(used, rq, st));
        for (int k = 0; k < used; k++) {
            if (what[k] > 0) {
                int i = what[k] - 1, count;
                OK(MPI_Get_count(&st[k], MPI_BYTE, &count));
                EQ(count, plan[i].bytes);
                EQ(st[k].MPI_SOURCE, plan[i].from);
                EQ(st[k].MPI_TAG, plan[i].tag);
                EQ(wrong_at(mem[k], plan[i].bytes, (uint64_t)step * 1000 + i), -1);
            }
            free(mem[k]);
        }
        free(plan); free(rq); free(mem); free(what); free(st);
    }
    OK(MPI_Comm_free(&comm[1]));
    return check_done();
}
