"""A small transformer, whose training step is a load and whose halves are the stages of a pipeline."""


def block(torch, width, heads):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.norm_after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.query_key_value, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            batch, length, _ = x.shape
            parts = self.query_key_value(self.norm(x)).view(batch, length, 3, heads, width // heads)
            query, key, value = (parts[:, :, i].transpose(1, 2) for i in range(3))
            weights = torch.softmax(query @ key.transpose(-1, -2) / (width // heads) ** 0.5, dim=-1)
            mixed = (weights @ value).transpose(1, 2).reshape(batch, length, width)
            x = x + self.project(mixed)
            return x + self.feed_forward(self.norm_after(x))

    return Block()


def stack(torch, blocks, width, heads, device, kind):
    """Returns that many blocks on a device, with weights of a kind."""
    return torch.nn.Sequential(*(block(torch, width, heads) for _ in range(blocks))).to(device=device, dtype=kind)


class TrainingSteps:
    """Training steps on the first CUDA device; also a forward and a backward computation separately."""

    def __init__(self, torch, blocks=8, width=2048, batch=8, length=1024):
        self.torch = torch
        self.model = stack(torch, blocks, width, 16, "cuda", torch.bfloat16)
        self.input = torch.randn(batch, length, width, device="cuda", dtype=torch.bfloat16)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-5)
        self.loss = None

    def _loss(self):
        return self.model(self.input).float().square().mean()

    def training(self):
        self.optimizer.zero_grad(set_to_none=True)
        self._loss().backward()
        self.optimizer.step()

    def forward(self):
        with self.torch.enable_grad():
            self.loss = self._loss()

    def backward(self):
        if self.loss is None:
            self.loss = self._loss()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss.backward(retain_graph=True)
