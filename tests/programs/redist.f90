! Redistribution of matrices between grids of processes by ScaLAPACK: P_GEMR2D (whole blocks of a matrix) and P_TRMR2D (its upper triangle), for INTEGER, DOUBLE PRECISION and COMPLEX*16.
! Each round takes a random submatrix from one grid with random blocks to another and back; an element holds its place in the matrix, so it is checked alone. Usage: redist ROUNDS
program redist
    implicit none
    integer, parameter :: most = 97
    integer :: me, ranks, every, rounds, round, made = 0, wrong = 0, all_wrong(1)
    integer :: rows, columns, m, n, from(2), to(2)
    integer :: a(9), b(9), home, away, state(64), length
    character(len=16) :: word
    integer, external :: numroc
    real :: dice

    call get_command_argument(1, word)
    read (word, *) rounds
    call blacs_pinfo(me, ranks)
    call random_seed(size=length)
    state = 20261125
    call random_seed(put=state(:length))
    ! A context with all processes, for calls that every one of them makes.
    call blacs_get(-1, 0, every)
    call blacs_gridinit(every, 'R', 1, ranks)
    do round = 1, rounds
        rows = upto(most)
        columns = upto(most)
        m = upto(rows)
        n = upto(columns)
        from = [upto(rows - m + 1), upto(columns - n + 1)]
        to = [upto(rows - m + 1), upto(columns - n + 1)]
        call grid(home)
        call grid(away)
        call describe(home, a)
        call describe(away, b)
        call whole()
        call triangle()
        call numbers()
        call pairs()
        if (home >= 0) call blacs_gridexit(home)
        if (away >= 0) call blacs_gridexit(away)
    end do
    all_wrong(1) = wrong
    call igsum2d(every, 'A', ' ', 1, 1, all_wrong, 1, -1, -1)
    if (me == 0) print '(a, i0, a, i0, a)', 'REDIST ', made, ' redistributions, ', all_wrong(1), ' wrong elements'
    call blacs_exit(0)

contains

    ! The same on all processes: they have the same seed.
    integer function upto(limit)
        integer, intent(in) :: limit
        call random_number(dice)
        upto = min(limit, 1 + int(dice*limit))
    end function

    ! A grid of random shape with the processes in random order, maybe not all of them; its context is -1 elsewhere.
    subroutine grid(context)
        integer, intent(out) :: context
        integer :: map(ranks), i, j, p, q, keep
        p = upto(ranks)
        q = upto(ranks/p)
        map = [(i, i = 0, ranks - 1)]
        do i = ranks, 2, -1
            j = upto(i)
            keep = map(i)
            map(i) = map(j)
            map(j) = keep
        end do
        call blacs_get(-1, 0, context)
        call blacs_gridmap(context, map, p, p, q)
        if (.not. any(map(:p*q) == me)) context = -1
    end subroutine

    ! The matrix in a grid, with random blocks that begin at a random process.
    subroutine describe(context, d)
        integer, intent(in) :: context
        integer, intent(out) :: d(9)
        integer :: p, q, i, j, mb, nb, first(2), seed(2)
        mb = upto(9)
        nb = upto(9)
        seed = [upto(1000), upto(1000)]
        d = 0
        d(2) = -1
        if (context < 0) return
        call blacs_gridinfo(context, p, q, i, j)
        first = [mod(seed(1), p), mod(seed(2), q)]
        d = [1, context, rows, columns, mb, nb, first(1), first(2), max(1, numroc(rows, mb, i, first(1), p))]
    end subroutine

    ! The part of the matrix that this process has, as places: row + 1000 * column, or 0 elements.
    subroutine places(d, at)
        integer, intent(in) :: d(9)
        integer, allocatable, intent(out) :: at(:, :)
        integer :: p, q, i, j, r, c
        integer, external :: indxl2g
        if (d(2) < 0) then
            allocate (at(1, 1), source=0)
            return
        end if
        call blacs_gridinfo(d(2), p, q, i, j)
        allocate (at(d(9), max(1, numroc(columns, d(6), j, d(8), q))), source=0)
        do c = 1, numroc(columns, d(6), j, d(8), q)
            do r = 1, numroc(rows, d(5), i, d(7), p)
                at(r, c) = indxl2g(r, d(5), i, d(7), p) + 1000*indxl2g(c, d(6), j, d(8), q)
            end do
        end do
    end subroutine

    ! Whether an element lies in the submatrix at `first`, and its place moved to `other`; 0 outside. With `upper`: in its upper triangle.
    elemental integer function moved(place, r0, c0, r1, c1, upper)
        integer, intent(in) :: place, r0, c0, r1, c1
        logical, intent(in) :: upper
        integer :: r, c
        r = mod(place, 1000) - r0
        c = place/1000 - c0
        moved = 0
        if (place <= 0 .or. r < 0 .or. r >= m .or. c < 0 .or. c >= n) return
        if (.not. upper .or. r <= c) moved = r + r1 + 1000*(c + c1)
    end function

    ! What must be there after the submatrix came from the other place: -7 where nothing came.
    subroutine expected(at, there, here, upper, want)
        integer, intent(in) :: at(:, :), there(2), here(2)
        logical, intent(in) :: upper
        integer, allocatable, intent(out) :: want(:, :)
        allocate (want, source=moved(at, here(1), here(2), there(1), there(2), upper))
        where (want == 0) want = -7
    end subroutine

    subroutine whole()
        integer, allocatable :: x(:, :), y(:, :), source(:, :), target(:, :), want(:, :)
        call places(a, source)
        call places(b, target)
        x = source
        allocate (y, mold=target)
        y = -7
        call pigemr2d(m, n, x, from(1), from(2), a, y, to(1), to(2), b, every)
        call expected(target, from, to, .false., want)
        wrong = wrong + count(y /= want .and. target > 0)
        x = -7
        call pigemr2d(m, n, y, to(1), to(2), b, x, from(1), from(2), a, every)
        call expected(source, from, from, .false., want)
        wrong = wrong + count(x /= want .and. source > 0)
        made = made + 2
    end subroutine

    ! A square one: the triangle of others is defined in another way.
    subroutine triangle()
        integer :: keep(2)
        integer, allocatable :: source(:, :), target(:, :), want(:, :)
        double precision, allocatable :: x(:, :), y(:, :)
        keep = [m, n]
        m = minval(keep)
        n = m
        call places(a, source)
        call places(b, target)
        x = dble(source)
        allocate (y(size(target, 1), size(target, 2)), source=-7d0)
        call pdtrmr2d('U', 'N', m, n, x, from(1), from(2), a, y, to(1), to(2), b, every)
        call expected(target, from, to, .true., want)
        wrong = wrong + count(nint(y) /= want .and. target > 0)
        x = -7d0
        call pdtrmr2d('U', 'N', m, n, y, to(1), to(2), b, x, from(1), from(2), a, every)
        call expected(source, from, from, .true., want)
        wrong = wrong + count(nint(x) /= want .and. source > 0)
        made = made + 2
        m = keep(1)
        n = keep(2)
    end subroutine

    subroutine numbers()
        integer, allocatable :: source(:, :), target(:, :), want(:, :)
        double precision, allocatable :: x(:, :), y(:, :)
        call places(a, source)
        call places(b, target)
        x = dble(source)
        allocate (y(size(target, 1), size(target, 2)), source=-7d0)
        call pdgemr2d(m, n, x, from(1), from(2), a, y, to(1), to(2), b, every)
        call expected(target, from, to, .false., want)
        wrong = wrong + count(nint(y) /= want .and. target > 0)
        x = -7d0
        call pdgemr2d(m, n, y, to(1), to(2), b, x, from(1), from(2), a, every)
        call expected(source, from, from, .false., want)
        wrong = wrong + count(nint(x) /= want .and. source > 0)
        made = made + 2
    end subroutine

    subroutine pairs()
        integer, allocatable :: source(:, :), target(:, :), want(:, :)
        complex(kind(1d0)), allocatable :: x(:, :), y(:, :)
        call places(a, source)
        call places(b, target)
        x = cmplx(source, -source, kind(1d0))
        allocate (y(size(target, 1), size(target, 2)), source=(-7d0, 7d0))
        call pzgemr2d(m, n, x, from(1), from(2), a, y, to(1), to(2), b, every)
        call expected(target, from, to, .false., want)
        wrong = wrong + count((nint(dble(y)) /= want .or. nint(aimag(y)) /= -want) .and. target > 0)
        x = (-7d0, 7d0)
        call pzgemr2d(m, n, y, to(1), to(2), b, x, from(1), from(2), a, every)
        call expected(source, from, from, .false., want)
        wrong = wrong + count((nint(dble(x)) /= want .or. nint(aimag(x)) /= -want) .and. source > 0)
        made = made + 2
    end subroutine
end program
