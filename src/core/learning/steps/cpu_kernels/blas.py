"""The matrix products of compiled code: SciPy's BLAS, which Numba calls, on the calling thread alone."""

import ctypes

from scipy.linalg import cython_blas

_SETTERS = "scipy_openblas_set_num_threads", "openblas_set_num_threads", "MKL_Set_Num_Threads"
"""Of the BLAS in SciPy's wheels, of a system's OpenBLAS, of MKL."""


def hold_to_one_thread() -> bool:
    """Keep SciPy's BLAS from starting threads of its own beside the update's; return whether that could be done.

    It cannot where the BLAS has none of these functions or the system does not find the ones of a library's own
    libraries (Windows); there ``OPENBLAS_NUM_THREADS=1`` in the environment does the same.
    """
    library = ctypes.CDLL(cython_blas.__file__)
    for name in _SETTERS:
        if hasattr(library, name):
            getattr(library, name)(1)
            return True
    return False
