/* Plays the messages of a program phase by phase, for SimGrid's SMPI: every rank posts all receives and sends of a phase and waits for them; a barrier
 * ends the phase. Prints how long all phases took, in (simulated) seconds.
 * Usage: smpi_phases FILE    lines "PHASE SOURCE DESTINATION BYTES", phases from 0 on in ascending order */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MESSAGES_MAX 4096
#define BYTES_MAX (1L << 30)

int main(int argc, char **argv)
{
	int rank, count = 0, now = 0, phase, src, dst;
	long bytes;
	MPI_Request requests[MESSAGES_MAX];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
	if (!file)
		MPI_Abort(MPI_COMM_WORLD, 2);
	/* No byte is looked at: all messages may lie in one place. */
	char *buffer = SMPI_SHARED_MALLOC(BYTES_MAX);
	MPI_Barrier(MPI_COMM_WORLD);
	double began = MPI_Wtime();
	for (;;) {
		int more = fscanf(file, "%d %d %d %ld", &phase, &src, &dst, &bytes) == 4;
		if (!more || phase != now) {
			MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
			MPI_Barrier(MPI_COMM_WORLD);
			count = 0;
			now = phase;
		}
		if (!more)
			break;
		if ((src == rank || dst == rank) && (count == MESSAGES_MAX || bytes > BYTES_MAX))
			MPI_Abort(MPI_COMM_WORLD, 3);
		if (src == rank)
			MPI_Isend(buffer, (int)bytes, MPI_BYTE, dst, 0, MPI_COMM_WORLD, &requests[count++]);
		if (dst == rank)
			MPI_Irecv(buffer, (int)bytes, MPI_BYTE, src, 0, MPI_COMM_WORLD, &requests[count++]);
	}
	if (rank == 0)
		printf("%.9g\n", MPI_Wtime() - began);
	SMPI_SHARED_FREE(buffer);
	MPI_Finalize();
	return 0;
}
