#!/usr/bin/env python3
"""Trains small networks and writes their metric after each epoch: what MetricCurve is judged on.

    train_metric_curves.py OUT.csv   a few minutes on one core; needs numpy and scikit-learn

Each row is one training: task, whether constants may be chosen on it ("choose") or it only judges
("judge"), whether more is better, batch size, learning rate, schedule, seed, and its metric after
each epoch, as whole numbers (right answers among the held-out samples, or the held-out loss in
1e-4). The trainings are real, of networks written here in numpy; their data are the digits that
scikit-learn brings along, its descriptions of data sets as text, and synthetic functions. Seeds fix
them up to the rounding of the machine's matrix products.
"""

import itertools
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from sklearn import datasets  # noqa: E402

EPOCHS = 45


class Dense:
    def __init__(self, random, inputs, outputs):
        self.w = random.normal(0, np.sqrt(2 / inputs), (inputs, outputs)).astype(np.float32)
        self.b = np.zeros(outputs, np.float32)

    def forward(self, x):
        self.x = x
        return x @ self.w + self.b

    def backward(self, grad):
        self.grads = [self.x.T @ grad, grad.sum(0)]
        return grad @ self.w.T

    def parameters(self):
        return [self.w, self.b]


class Relu:
    grads = ()

    def forward(self, x):
        self.on = x > 0
        return x * self.on

    def backward(self, grad):
        return grad * self.on

    def parameters(self):
        return []


class Conv:
    """3 x 3 convolution without padding, on square pictures (samples, side, side, channels)."""

    def __init__(self, random, side, inputs, outputs):
        self.side, self.inputs = side, inputs
        self.dense = Dense(random, 9 * inputs, outputs)

    def forward(self, x):
        self.samples = len(x)
        x = x.reshape(-1, self.side, self.side, self.inputs)
        inner = self.side - 2
        parts = [x[:, i : i + inner, j : j + inner] for i in range(3) for j in range(3)]
        columns = np.concatenate(parts, axis=3).reshape(-1, 9 * self.inputs)
        return self.dense.forward(columns).reshape(self.samples, -1)

    def backward(self, grad):
        inner = self.side - 2
        columns = self.dense.backward(grad.reshape(self.samples * inner * inner, -1))
        self.grads = self.dense.grads
        columns = columns.reshape(self.samples, inner, inner, 9, self.inputs)
        back = np.zeros((self.samples, self.side, self.side, self.inputs), np.float32)
        for at in range(9):
            i, j = divmod(at, 3)
            back[:, i : i + inner, j : j + inner] += columns[:, :, :, at]
        return back.reshape(self.samples, -1)

    def parameters(self):
        return self.dense.parameters()


def mlp(random, *widths):
    layers = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [Dense(random, inputs, outputs), Relu()]
    return layers[:-1]


def forward(layers, x):
    for layer in layers:
        x = layer.forward(x)
    return x


def log_softmax(logits):
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def output_gradient(outputs, wanted):
    if wanted.dtype.kind == "f":
        return 2 * (outputs - wanted) / len(wanted)
    grad = np.exp(log_softmax(outputs))
    grad[np.arange(len(wanted)), wanted] -= 1
    return (grad / len(wanted)).astype(np.float32)


def metric_of(kind, outputs, wanted):
    if not np.isfinite(outputs).all():
        return float("nan")
    if kind == "accuracy":
        return int((outputs.argmax(1) == wanted).sum())
    if wanted.dtype.kind == "f":
        return 1e4 * float(((outputs - wanted) ** 2).mean())
    return -1e4 * float(log_softmax(outputs)[np.arange(len(wanted)), wanted].mean())


def rate_at(schedule, rate, epoch):
    """epoch: from 0"""
    if schedule == "step":
        return rate * (1 if epoch < 20 else 0.1 if epoch < 35 else 0.01)
    if schedule == "cosine":
        return rate * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
    return rate


def train(task, batch_size, rate, schedule, seed):
    random = np.random.default_rng(seed)
    x, y, held_x, held_y = task["data"]
    layers = task["network"](random)
    parameters = [p for layer in layers for p in layer.parameters()]
    first = [np.zeros_like(p) for p in parameters]
    second = [np.zeros_like(p) for p in parameters]
    step, metrics = 0, []
    for epoch in range(EPOCHS):
        now = rate_at(schedule, rate, epoch)
        order = random.permutation(len(x))
        for at in range(0, len(x), batch_size):
            chosen = order[at : at + batch_size]
            grad = output_gradient(forward(layers, x[chosen]), y[chosen])
            for layer in reversed(layers):
                grad = layer.backward(grad)
            step += 1
            grads = [g for layer in layers for g in layer.grads]
            for p, g, m, v in zip(parameters, grads, first, second):
                if task["optimizer"] == "sgd":
                    m *= 0.9
                    m += g
                    p -= now * m
                    continue
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                p -= now * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        metrics.append(metric_of(task["metric"], forward(layers, held_x), held_y))
    return metrics


def split(x, y, held):
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order].astype(np.float32), y[order]
    return x[held:], y[held:], x[:held], y[:held]


def digits(noise=0.0, count=None):
    x, y = datasets.load_digits(return_X_y=True)
    x, y, held_x, held_y = split(x / 16, y, 597)
    if count:
        x, y = x[:count], y[:count]
    random = np.random.default_rng(1)
    flipped = random.random(len(y)) < noise
    y = np.where(flipped, random.integers(0, 10, len(y)), y)
    return x, y, held_x, held_y


def teacher():
    random = np.random.default_rng(2)
    x = random.normal(size=(1600, 20))
    y = np.tanh(x @ random.normal(size=(20, 12)) / 3) @ random.normal(size=(12, 1))
    return split(x, (y + random.normal(0, 0.1, y.shape)).astype(np.float32), 600)


def friedman():
    x, y = datasets.make_friedman1(1600, n_features=10, noise=0.5, random_state=3)
    return split(x, ((y - y.mean()) / y.std()).astype(np.float32)[:, None], 600)


def spirals():
    random = np.random.default_rng(4)
    kind = random.integers(0, 3, 1600)
    at = random.random(1600)
    angle = 5 * at + kind * 2.1 + random.normal(0, 0.15, 1600)
    return split(np.stack([at * np.cos(angle), at * np.sin(angle)], 1), kind, 600)


def parity():
    """The parity of 3 of 20 bits: the metric is flat for long, then rises suddenly."""
    x = np.random.default_rng(5).choice([-1.0, 1.0], (2600, 20))
    return split(x, (x[:, :3].prod(1) > 0).astype(np.int64), 600)


def clusters():
    x, y = datasets.make_classification(
        2000, 24, n_informative=10, n_classes=5, n_clusters_per_class=3, flip_y=0.03, random_state=6
    )
    return split(x, y, 700)


def text():
    """Predicts the next letter from five."""
    described = [
        datasets.load_digits,
        datasets.load_iris,
        datasets.load_wine,
        datasets.load_diabetes,
    ]
    letters = "".join(load().DESCR for load in described).lower()[:6000]
    known = {c: i for i, c in enumerate(sorted(set(letters)))}
    codes = np.array([known[c] for c in letters])
    one_hot = np.eye(len(known), dtype=np.float32)[codes]
    x = np.concatenate([one_hot[i : i - 5] for i in range(5)], axis=1)
    return split(x, codes[5:], 1200)


def tasks():
    def small_conv(random):
        return [Conv(random, 8, 1, 6), Relu(), Conv(random, 6, 6, 8), Relu(), *mlp(random, 128, 10)]

    digit, letters = digits(), text()
    accuracy, loss = {"metric": "accuracy"}, {"metric": "loss"}
    sgd, adam = {"optimizer": "sgd"}, {"optimizer": "adam"}
    wide, narrow = [8, 32, 128, 512], [8, 64, 512]
    rates, adam_rates = [0.1, 0.02, 0.003], [1e-2, 1e-3, 2e-4]

    def network(*widths):
        return lambda random: mlp(random, *widths)

    # name, (use, schedule), description, batch sizes, learning rates, seeds
    return [
        ("digits", "choose", "constant",
         {"data": digit, "network": network(64, 32, 10), **accuracy, **sgd}, wide, rates, 3),
        ("digits-step", "choose", "step",
         {"data": digit, "network": network(64, 32, 10), **accuracy, **sgd},
         narrow, [0.3, 0.1, 0.003], 3),
        ("digits-loss", "choose", "constant",
         {"data": digits(count=600), "network": network(64, 32, 10), **loss, **sgd},
         narrow, rates, 2),
        ("teacher", "choose", "constant",
         {"data": teacher(), "network": network(20, 48, 1), **loss, **adam}, wide, adam_rates, 2),
        ("spirals", "choose", "constant",
         {"data": spirals(), "network": network(2, 24, 24, 3), **accuracy, **adam},
         wide, adam_rates, 3),
        ("digits-conv", "judge", "cosine",
         {"data": digit, "network": small_conv, **accuracy, **adam},
         [16, 64, 256, 1024], adam_rates, 2),
        ("digits-noise", "judge", "constant",
         {"data": digits(0.3), "network": network(64, 64, 10), **accuracy, **sgd},
         narrow, rates, 3),
        ("parity", "judge", "constant",
         {"data": parity(), "network": network(20, 64, 2), **accuracy, **adam},
         wide, adam_rates, 3),
        ("clusters-step", "judge", "step",
         {"data": clusters(), "network": network(24, 48, 5), **accuracy, **sgd},
         wide, [0.1, 0.02, 0.003], 2),
        ("friedman", "judge", "constant",
         {"data": friedman(), "network": network(10, 32, 1), **loss, **sgd},
         wide, [0.03, 0.01, 0.001], 2),
        ("text", "judge", "constant",
         {"data": letters, "network": network(letters[0].shape[1], 48, 60), **loss, **adam},
         [16, 128, 1024],
         adam_rates, 2),
    ]  # fmt: skip


def main():
    rows = ["task,use,higher_is_better,batch_size,learning_rate,schedule,seed,metrics"]
    for name, use, schedule, task, sizes, rates, seeds in tasks():
        for size in sizes:
            for rate in rates:
                for seed in range(1, seeds + 1):
                    with np.errstate(all="ignore"):
                        metrics = train(task, size, rate, schedule, seed)
                    values = " ".join("nan" if m != m else str(round(m)) for m in metrics)
                    better = int(task["metric"] == "accuracy")
                    rows.append(f"{name},{use},{better},{size},{rate},{schedule},{seed},{values}")
        print(name, len(rows) - 1, flush=True)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
