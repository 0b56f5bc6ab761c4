"""Muon: momentum whose matrix is made orthogonal before each step, so that all directions are learned alike."""
import torch


def orthogonal(matrix, rounds=5):
    """Approximates the nearest orthogonal matrix by the Newton-Schulz iteration."""
    x = matrix.bfloat16()
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.t().contiguous()
    x = x / (x.float().norm() + 1e-7).bfloat16()
    for _ in range(rounds):
        square = x @ x.t()
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * (square @ square)) @ x
    return (x if wide else x.t()).float()


class Muon(torch.optim.Optimizer):
    """For matrices only. The size of a step is that of Adam at the same rate (about .2 in each element)."""

    def __init__(self, matrices, peak, momentum=.95, weight_decay=.05):
        super().__init__(matrices, dict(lr=peak, peak=peak, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group['params']:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state['mean'] = torch.zeros_like(p)
                state['mean'].lerp_(p.grad, 1 - group['momentum'])
                update = orthogonal(p.grad.lerp(state['mean'], group['momentum']))
                p.mul_(1 - group['lr'] * group['weight_decay'])
                p.add_(update, alpha=-group['lr'] * .2 * max(p.shape) ** .5)
