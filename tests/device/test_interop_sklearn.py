"""scikit-learn with array API dispatch, unmodified, on oa arrays: what is fitted stays on the engine and is NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import oa
from oa import matrix as m

sklearn = pytest.importorskip("sklearn")

from sklearn import metrics, preprocessing  # noqa: E402
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # noqa: E402
from sklearn.linear_model import Ridge, RidgeClassifier  # noqa: E402
from sklearn.model_selection import cross_val_score, train_test_split  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 5)).astype(np.float32) * np.float32([3, 2, 1, 0.5, 0.25])
TARGET = (X @ np.arange(5) + 0.1 * RANDOM.normal(size=40)).astype(np.float32)
CLASSES = (TARGET.mean() < TARGET).astype(np.int32) + (TARGET.mean() + TARGET.std() < TARGET).astype(np.int32)
TWO = (CLASSES > 0).astype(np.int32)
GUESS = np.where(np.arange(40) % 7 == 0, 1 - TWO, TWO).astype(np.int32)
SCORE = (1 / (1 + np.exp(-TARGET + TARGET.mean() + RANDOM.normal(size=40)))).astype(np.float32)


@pytest.fixture(autouse=True)
def dispatch(any_engine: Any) -> Iterator[None]:
    """Dispatch on, and the module's engine the default one, which entering it made it."""
    with sklearn.config_context(array_api_dispatch=True):
        assert oa.default_engine() is any_engine
        yield


def agree(function: Callable[..., Any], *arrays: np.ndarray[Any, Any], atol: float = 1e-4) -> Any:
    """The result for oa arrays, once it is found equal to that for NumPy's."""
    want = function(*arrays)
    got = function(*map(m.asarray, arrays))
    for g, w in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,)):
        assert isinstance(g, oa.Matrix) or np.ndim(w) == 0
        assert np.shape(g) == np.shape(w)
        assert np.allclose(np.asarray(g, np.float64), np.asarray(w, np.float64), rtol=1e-3, atol=atol)
    return got


@pytest.mark.parametrize("solver", ["full", "covariance_eigh", "randomized"])
@pytest.mark.parametrize("whiten", [False, True])
def test_pca(solver: str, whiten: bool) -> None:
    def fit(x: Any) -> tuple[Any, ...]:
        model = PCA(2, svd_solver=solver, whiten=whiten, random_state=0).fit(x)
        back = model.inverse_transform(model.transform(x))
        return back, model.explained_variance_, model.mean_, model.components_ * model.components_

    assert all(isinstance(v, oa.Matrix) for v in agree(fit, X, atol=1e-3))


@pytest.mark.parametrize("alpha", [0.0, 1.0, 10.0])
def test_ridge(alpha: float) -> None:
    def fit(x: Any, y: Any) -> tuple[Any, ...]:
        model = Ridge(alpha, solver="svd").fit(x, y)
        return model.coef_, model.predict(x)

    agree(fit, X, TARGET)


def test_ridge_classifier() -> None:
    agree(lambda x, y: RidgeClassifier(solver="svd").fit(x, y).predict(x), X, CLASSES)


def test_linear_discriminant_analysis() -> None:
    def fit(x: Any, y: Any) -> tuple[Any, ...]:
        model = LinearDiscriminantAnalysis().fit(x, y)
        return model.predict(x), model.predict_proba(x), model.decision_function(x), model.coef_

    agree(fit, X, CLASSES, atol=2e-3)


def test_model_selection() -> None:
    agree(lambda x, y: tuple(train_test_split(x, y, random_state=0)), X, CLASSES)
    got = cross_val_score(Ridge(solver="svd"), m.asarray(X), m.asarray(TARGET))
    assert np.allclose(got, cross_val_score(Ridge(solver="svd"), X, TARGET), atol=1e-4)


@pytest.mark.parametrize(
    "name",
    "accuracy_score zero_one_loss f1_score precision_score recall_score jaccard_score hamming_loss confusion_matrix"
    " cohen_kappa_score precision_recall_fscore_support multilabel_confusion_matrix"
    " balanced_accuracy_score".split(),
)
def test_classification_metrics(name: str) -> None:
    agree(getattr(metrics, name), TWO, GUESS)


@pytest.mark.parametrize(
    "name",
    "average_precision_score log_loss brier_score_loss precision_recall_curve det_curve".split(),
)
def test_ranking_metrics(name: str) -> None:
    agree(getattr(metrics, name), TWO, SCORE)


@pytest.mark.parametrize(
    "name",
    "mean_absolute_error mean_squared_error r2_score mean_squared_log_error max_error mean_tweedie_deviance"
    " explained_variance_score mean_pinball_loss d2_tweedie_score root_mean_squared_error median_absolute_error"
    " mean_absolute_percentage_error mean_poisson_deviance mean_gamma_deviance".split(),
)
def test_regression_metrics(name: str) -> None:
    agree(getattr(metrics, name), np.abs(TARGET) + 1, np.abs(TARGET) + SCORE)


@pytest.mark.parametrize(
    "name",
    "cosine_similarity euclidean_distances linear_kernel rbf_kernel polynomial_kernel sigmoid_kernel"
    " additive_chi2_kernel chi2_kernel paired_cosine_distances paired_euclidean_distances cosine_distances"
    " laplacian_kernel".split(),
)
def test_pairwise_metrics(name: str) -> None:
    agree(getattr(metrics.pairwise, name), np.abs(X), np.abs(X) + 1, atol=1e-3)


@pytest.mark.parametrize(
    "name",
    ["MinMaxScaler", "MaxAbsScaler", "StandardScaler", "Normalizer", "Binarizer", "PolynomialFeatures"],
)
def test_preprocessing(name: str) -> None:
    agree(lambda x: getattr(preprocessing, name)().fit_transform(x), X)


def test_label_preprocessing() -> None:
    agree(lambda y: preprocessing.LabelEncoder().fit_transform(y), CLASSES * 3)
    agree(lambda y: preprocessing.LabelBinarizer().fit_transform(y), CLASSES)
