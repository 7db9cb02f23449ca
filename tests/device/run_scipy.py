"""Calls of SciPy on oa arrays and on NumPy's, for test_interop_scipy.py: prints what differs, as JSON by name of the call."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import numpy as np
from scipy import signal, special, stats

import oa
from oa import matrix as m

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
a = rng.normal(size=(30, 5))
u, v, w = a[:, 0], a[:, 1], np.abs(a) + 1
x, y = np.linspace(0.1, 0.9, 9), np.linspace(1.0, 2.0, 9)
counts = np.round(w[:, 0] * 10)
window = np.hanning(5)
sos = signal.butter(2, 0.2, output="sos")

CASES = {
    f"special.{n}": (getattr(special, n), (x,))
    for n in "log_ndtr ndtr ndtri erf erfc i0 i0e i1 i1e gammaln expit logit entr".split()
}
CASES |= {
    f"special.{n}": (getattr(special, n), (x, y))
    for n in "rel_entr betaln gammainc gammaincc xlogy chdtr chdtrc".split()
}
CASES |= {
    f"special.{n}": (lambda z, n=n: getattr(special, n)(z, axis=1), (a,))
    for n in "logsumexp softmax log_softmax".split()
}
CASES |= {
    f"stats.{n}": (getattr(stats, n), (a,))
    for n in "skew kurtosis zscore describe sem circmean circvar circstd variation tmean tvar tstd tsem tmin tmax iqr "
    "median_abs_deviation skewtest kurtosistest normaltest jarque_bera differential_entropy rankdata lmoment "
    "directional_stats".split()
}
CASES |= {f"stats.{n}": (getattr(stats, n), (w,)) for n in "gmean hmean entropy gstd gzscore".split()}
CASES |= {
    f"stats.{n}": (getattr(stats, n), (u, v))
    for n in "bartlett ttest_ind ttest_rel pearsonr f_oneway mannwhitneyu wilcoxon".split()
}
CASES |= {
    "stats.moment": (lambda z: stats.moment(z, 3), (a,)),
    "stats.pmean": (lambda z: stats.pmean(z, 2), (w,)),
    "stats.zmap": (stats.zmap, (a, a)),
    "stats.ttest_1samp": (lambda z: stats.ttest_1samp(z, 0.0), (a,)),
    "stats.trim_mean": (lambda z: stats.trim_mean(z, 0.1), (u,)),
    "stats.kstat": (stats.kstat, (u,)),
    "stats.chisquare": (stats.chisquare, (counts,)),
    "stats.combine_pvalues": (stats.combine_pvalues, (x,)),
    "stats.boxcox_llf": (lambda z: stats.boxcox_llf(0.5, z), (w[:, 0],)),
    "stats.quantile": (stats.quantile, (u, np.array([0.25, 0.5]))),
    "stats.mode": (stats.mode, (np.round(a),)),
    "signal.detrend": (signal.detrend, (u,)),
    "signal.convolve": (lambda p, q: signal.convolve(p, q, method="direct"), (u, window)),
    "signal.correlate": (lambda p, q: signal.correlate(p, q, method="direct"), (u, window)),
    "signal.convolve2d": (signal.convolve2d, (a, a)),
    "signal.lfilter": (signal.lfilter, (window, np.ones(1), u)),
    "signal.sosfilt": (signal.sosfilt, (sos, u)),
    "signal.savgol_filter": (lambda z: signal.savgol_filter(z, 5, 2), (u,)),
    "signal.medfilt": (lambda z: signal.medfilt(z, 3), (u,)),
    "signal.wiener": (lambda z: signal.wiener(z, 3), (u,)),
}


def values(result: Any) -> list[Any]:
    """The arrays and numbers of a result, in order."""
    if isinstance(result, (tuple, list)) or hasattr(result, "_fields"):
        return [v for part in result for v in values(part)]
    if hasattr(result, "statistic"):
        return values((result.statistic, result.pvalue))
    if hasattr(result, "mean_direction"):
        return values((result.mean_direction, result.mean_resultant_length))
    return [result]


def outcome(function: Any, arguments: Any, dtype: str) -> str:
    want = values(function(*(v.astype(dtype) for v in arguments)))
    got = values(function(*(m.asarray(v.astype(dtype)) for v in arguments)))
    if len(got) != len(want):
        return f"{len(got)} results, NumPy has {len(want)}"
    for g, w in zip(got, want):
        if not isinstance(g, oa.Matrix) and np.ndim(g):
            return f"a {type(g).__name__} came back"
        if np.shape(g) != np.shape(w):
            return f"shape {np.shape(g)}, NumPy's is {np.shape(w)}"
        rtol, atol = (
            (2e-3, 2e-4) if dtype == "float32" else (1e-6, 1e-8)
        )  # SciPy makes parameters of the default dtype, float32
        if not np.allclose(np.asarray(g, float), np.asarray(w, float), rtol, atol, equal_nan=True):
            return f"{np.asarray(g)} is not {w}"
    return ""


said = {}
with oa.Engine(device=sys.argv[1]) as engine:
    for name, (function, arguments) in CASES.items():
        for dtype in sys.argv[2:]:
            if dtype in m.__array_namespace_info__().dtypes():
                try:
                    said[f"{name}-{dtype}"] = outcome(function, arguments, dtype)
                except Exception as error:
                    said[f"{name}-{dtype}"] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
