/* Whether the C library knows where Fortran's sentinels are (MPI-5.0, 19.3.5) */
extern int *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
void knows_status_ignore_(int *one, int *several, int *answer);

void knows_status_ignore_(int *one, int *several, int *answer)
{
    *answer = one == MPI_F_STATUS_IGNORE && several == MPI_F_STATUSES_IGNORE;
}
