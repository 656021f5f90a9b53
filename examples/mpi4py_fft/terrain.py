#!/usr/bin/env python3
"""Low-pass filter of a real digital elevation model with PyPI's mpi4py-fft, checked against numpy's own FFT.

The data are the elevations around the Jacksboro fault (Tennessee, 344 x 403 points) that matplotlib ships. Every rank holds a block of
rows; mpi4py-fft transforms the distributed array, wave lengths below LIMIT points are cut, the inverse gives the smoothed terrain.
Checked: the sum of the squares is the same in both spaces (Parseval), the spectrum and the smoothed terrain agree with numpy's.

Usage: mpiexec -n N python terrain.py [LIMIT]
"""

import pathlib
import sys

import matplotlib
import numpy as np
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray


def elevations() -> np.ndarray:
    """Metres above the sea, one value a point."""
    path = pathlib.Path(matplotlib.get_data_path()) / "sample_data/jacksboro_fault_dem.npz"
    with np.load(path) as data:
        return data["elevation"].astype(float)


def low_pass(shape: tuple[int, ...], limit: float) -> np.ndarray:
    """1 where the wave length is at least `limit` points, else 0; laid out as numpy's rfft2."""
    fy, fx = np.fft.fftfreq(shape[0])[:, None], np.fft.rfftfreq(shape[1])[None, :]
    return (np.hypot(fy, fx) <= 1 / limit).astype(float)


def main() -> int:
    comm = MPI.COMM_WORLD
    limit = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    ground = elevations()
    fft = PFFT(comm, ground.shape, dtype=float)
    mine, spectrum = newDistArray(fft, False), newDistArray(fft, True)
    mine[:] = ground[mine.local_slice()]
    comm.Barrier()
    start = MPI.Wtime()
    fft.forward(mine, spectrum)  # scaled by 1 / points
    mask = low_pass(ground.shape, limit)
    error = comm.allreduce(float(np.abs(spectrum - (np.fft.rfft2(ground) / ground.size)[spectrum.local_slice()]).max()), op=MPI.MAX)
    twice = np.where((np.arange(ground.shape[1] // 2 + 1) == 0) | (2 * np.arange(ground.shape[1] // 2 + 1) == ground.shape[1]), 1, 2)
    columns = spectrum.local_slice()[1]
    energy = comm.allreduce(float((np.abs(spectrum) ** 2 * twice[columns]).sum())) * ground.size
    direct = comm.allreduce(float((np.asarray(mine) ** 2).sum()))
    spectrum *= mask[spectrum.local_slice()]
    smooth = newDistArray(fft, False)
    fft.backward(spectrum, smooth)
    seconds = comm.allreduce(MPI.Wtime() - start, op=MPI.MAX)
    wanted = np.fft.irfft2(np.fft.rfft2(ground) * mask, s=ground.shape)
    off = comm.allreduce(float(np.abs(smooth - wanted[smooth.local_slice()]).max()), op=MPI.MAX)
    rough = comm.allreduce(float(((np.asarray(mine) - np.asarray(smooth)) ** 2).sum()))
    good = error < 1e-9 and off < 1e-6 and abs(energy / direct - 1) < 1e-12
    if comm.rank == 0:
        print(f"mpi4py-fft on {comm.size} ranks, {ground.shape[0]}x{ground.shape[1]} elevations {ground.min():.0f} to {ground.max():.0f} m: "
              f"{seconds * 1e3:.0f} ms; structures below {limit:g} points are {np.sqrt(rough / ground.size):.1f} m high (rms); "
              f"spectrum error {error:.1e}, terrain error {off:.1e} m, Parseval {abs(energy / direct - 1):.1e}: {'right' if good else 'WRONG'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
