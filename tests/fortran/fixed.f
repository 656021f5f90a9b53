C     mpif.h in fixed form, as old programs have it: implicit types, no
C     interface, work arrays passed where other types are expected
      PROGRAM FIXED
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, I, REQ(2), STAT(MPI_STATUS_SIZE,2)
      DOUBLE PRECISION A(10), B(10), TOTAL
      COMMON /WORK/ A, B
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      DO 10 I = 1, 10
        A(I) = ME * 100 + I
   10 CONTINUE
      CALL MPI_IRECV(B, 10, MPI_DOUBLE_PRECISION, MOD(ME+NP-1,NP), 5,
     &               MPI_COMM_WORLD, REQ(1), IERR)
      CALL MPI_ISEND(A, 10, MPI_DOUBLE_PRECISION, MOD(ME+1,NP), 5,
     &               MPI_COMM_WORLD, REQ(2), IERR)
      CALL MPI_WAITALL(2, REQ, STAT, IERR)
      IF (B(10) .NE. MOD(ME+NP-1,NP) * 100 + 10) CALL FAIL(1)
      IF (STAT(MPI_TAG,1) .NE. 5) CALL FAIL(2)
      CALL MPI_REDUCE(A(1), TOTAL, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0,
     &                MPI_COMM_WORLD, IERR)
      IF (ME .EQ. 0 .AND. TOTAL .NE. 50*NP*(NP-1) + NP) CALL FAIL(3)
      CALL MPI_BCAST(NP, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, IERR)
      CALL MPI_FINALIZE(IERR)
      END

      SUBROUTINE FAIL(CODE)
      INCLUDE 'mpif.h'
      INTEGER CODE, IERR
      PRINT *, 'check', CODE, 'failed'
      CALL MPI_ABORT(MPI_COMM_WORLD, CODE, IERR)
      END
