"""IDDPM with 1000 linear betas: the training loss, and sampling as Open-Sora 1.0 does it.

Sampling respaces the steps, guides the first 3 of the 4 latent channels only, and gives the
unconditional half the null caption cut to the length of the prompt.
"""

import torch

STEPS = 1000
GUIDED_CHANNELS = 3


class Tables:
    """Coefficients of a chain that keeps the given original steps; fp64 inside, fp32 out."""

    def __init__(self, kept=None):
        alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, STEPS, dtype=torch.float64), 0)
        self.original = torch.arange(STEPS) if kept is None else torch.tensor(kept)
        total = alphas[self.original]
        before = torch.cat([torch.ones(1, dtype=torch.float64), total[:-1]])
        beta = 1 - total / before
        posterior = beta * (1 - before) / (1 - total)
        posterior[0] = posterior[1]  # only its logarithm is used
        as_float = dict(
            signal=total.sqrt(), noise=(1 - total).sqrt(), x_scale=(1 / total).sqrt(), e_scale=(1 / total - 1).sqrt(),
            log_beta=beta.log(), log_posterior=posterior.log(), c1=beta * before.sqrt() / (1 - total),
            c2=(1 - before) * (1 - beta).sqrt() / (1 - total))
        for name, value in as_float.items():
            setattr(self, name, value.float())


def respaced(count):
    """Original indices of a shortened chain: even strides from 0 to 999, rounded half to even."""
    stride, at, kept = (STEPS - 1) / (count - 1), 0.0, []
    for _ in range(count):
        kept.append(round(at))
        at += stride
    return Tables(kept)


def pick(table, t):
    return table[t][:, None, None, None, None]


def losses(tables, out, x0, noisy, noise, t):
    """Per sample: squared error of the noise, and the bound (bits a dimension) that trains only the variance."""
    predicted, fraction = out.chunk(2, 1)
    simple = (predicted - noise).square().flatten(1).mean(1)
    mean_error = pick(tables.c1 * tables.e_scale, t) * (noise - predicted.detach())
    low, high = pick(tables.log_posterior, t), pick(tables.log_beta, t)
    log_variance = low + (fraction + 1) / 2 * (high - low)
    bound = 0.5 * (log_variance - low + (low - log_variance).exp() - 1 + mean_error.square() * (-log_variance).exp())
    return simple, bound.flatten(1).mean(1) / 0.6931


@torch.no_grad()
def sample(net, noise, text, null, keep, steps, guidance, generator):
    """noise (B, 4, T, H, W); text, null (B, L, d); keep (B, L) -> latents of unit scale."""
    tables, x, batch = respaced(steps), noise, len(noise)
    y, both = torch.cat([text, null]), torch.cat([keep, keep])
    for i in reversed(range(steps)):
        out = net(torch.cat([x, x]), tables.original[i].expand(2 * batch), y, both)
        conditional, unconditional = out.chunk(2)
        e, fraction = conditional.chunk(2, 1)
        e = e.clone()
        guided, base = e[:, :GUIDED_CHANNELS], unconditional[:, :GUIDED_CHANNELS]
        e[:, :GUIDED_CHANNELS] = base + guidance * (guided - base)
        f = (fraction + 1) / 2
        log_variance = f * tables.log_beta[i] + (1 - f) * tables.log_posterior[i]
        start = tables.x_scale[i] * x - tables.e_scale[i] * e
        x = tables.c1[i] * start + tables.c2[i] * x
        if i:
            x = x + (0.5 * log_variance).exp() * torch.randn(x.shape, generator=generator)
    return x
