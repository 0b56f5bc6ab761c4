"""Llama-like decoder for CPU training with torch 1.13: bf16 matmuls (AMX), fp32 element-wise parts, fused by hand."""
import math, torch, torch.nn as nn, torch.nn.functional as F
BF = torch.bfloat16
class BLin(torch.autograd.Function):
    @staticmethod
    def forward(c, x, w):
        xb, wb = x.to(BF), w.to(BF); c.save_for_backward(xb, wb); return F.linear(xb, wb).float()
    @staticmethod
    def backward(c, g):
        xb, wb = c.saved_tensors; gb = g.to(BF); return (gb @ wb).float(), (gb.t() @ xb).float()
class Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(c, x, wgu, wd):
        xb, wg, wdb = x.to(BF), wgu.to(BF), wd.to(BF); gu = F.linear(xb, wg).float(); h = gu.shape[1] // 2; g, u = gu[:, :h], gu[:, h:]
        s = torch.sigmoid(g); a = g * s; m = (a * u).to(BF); c.save_for_backward(xb, wg, wdb, s, a, u, m); return F.linear(m, wdb).float()
    @staticmethod
    def backward(c, gy):
        xb, wg, wdb, s, a, u, m = c.saved_tensors; gb = gy.to(BF); dm = (gb @ wdb).float(); gwd = (gb.t() @ m).float(); h = s.shape[1]
        d = torch.empty(gy.shape[0], 2 * h); torch.mul(dm, a, out=d[:, h:])
        # da/dg = s + a(1-s)
        torch.mul(dm.mul_(u), s.add(a * (1 - s)), out=d[:, :h]); db = d.to(BF)
        return (db @ wg).float(), (db.t() @ xb).float(), gwd
class RMS(torch.autograd.Function):
    @staticmethod
    def forward(c, x, w):
        r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5); n = x * r; c.save_for_backward(n, r, w); return n * w
    @staticmethod
    def backward(c, g):
        n, r, w = c.saved_tensors; gw = (g * n).sum(0); gn = g * w; return (gn - n * (gn * n).mean(-1, keepdim=True)) * r, gw
class Attn(torch.autograd.Function):
    """h [B*T,(3H)*hs] fp32 -> y [B*T,H*hs]; RoPE, causal softmax, bf16 matmuls"""
    @staticmethod
    def rot(x, cos, sin, inv=False):
        k = x.shape[-1] // 2; a, b = x[..., :k], x[..., k:]; o = torch.empty(x.shape, dtype=BF); c, s = cos[..., :k], sin[..., :k]; s = -s if inv else s
        o[..., :k] = a * c - b * s; o[..., k:] = b * c + a * s; return o
    @staticmethod
    def forward(c, h, B, T, H, hs, cos, sin, mask):
        h = h.view(B, T, 3, H, hs).permute(2, 0, 3, 1, 4); q, k, v = Attn.rot(h[0], cos, sin), Attn.rot(h[1], cos, sin), h[2].to(BF, memory_format=torch.contiguous_format)
        q, k, v = [z.reshape(B * H, T, hs) for z in (q, k, v)]
        w = torch.softmax(torch.bmm(q, k.transpose(1, 2)).float().mul_(hs ** -.5).add_(mask), -1).to(BF); y = torch.bmm(w, v)
        c.save_for_backward(q, k, v, w); c.a = (B, T, H, hs, cos, sin); return y.view(B, H, T, hs).transpose(1, 2).reshape(B * T, H * hs).float()
    @staticmethod
    def backward(c, g):
        q, k, v, w = c.saved_tensors; B, T, H, hs, cos, sin = c.a; g = g.to(BF).view(B, T, H, hs).transpose(1, 2).reshape(B * H, T, hs)
        gw = torch.bmm(g, v.transpose(1, 2)).float(); wf = w.float(); gw.mul_(wf); gs = gw.sub_(wf.mul_(gw.sum(-1, keepdim=True))).mul_(hs ** -.5).to(BF)
        out = torch.empty(B, T, 3, H, hs); o = out.permute(2, 0, 3, 1, 4)
        o[0] = Attn.rot(torch.bmm(gs, k).view(B, H, T, hs).float(), cos, sin, True); o[1] = Attn.rot(torch.bmm(gs.transpose(1, 2), q).view(B, H, T, hs).float(), cos, sin, True); o[2] = torch.bmm(w.transpose(1, 2), g).view(B, H, T, hs)
        return out.view(B * T, 3 * H * hs), None, None, None, None, None, None, None
class Cfg(dict): __getattr__ = dict.__getitem__
CFG = Cfg(V=2048, d=256, L=4, H=4, KV=4, hs=64, hid=704, S=512, theta=10000.0, eps=1e-5)
def rope_tables(c):
    inv = 1 / (c.theta ** (torch.arange(0, c.hs, 2).float() / c.hs)); a = torch.outer(torch.arange(c.S).float(), inv); a = torch.cat([a, a], -1); return a.cos(), a.sin()
class LM(nn.Module):
    def __init__(s, c=CFG):
        super().__init__(); s.c = c; P = lambda *sh, std=.02: nn.Parameter(torch.randn(*sh) * std); o = lambda n: nn.Parameter(torch.ones(n)); sc = .02 / math.sqrt(2 * c.L)
        s.emb = P(c.V, c.d, std=.04); s.nf = o(c.d); q = (c.H + 2 * c.KV) * c.hs
        s.ls = nn.ModuleList([nn.ParameterDict(dict(n1=o(c.d), qkv=P(q, c.d, std=.04), o=P(c.d, c.H * c.hs, std=sc), n2=o(c.d), gu=P(2 * c.hid, c.d, std=.04), dn=P(c.d, c.hid, std=sc))) for _ in range(c.L)])
        s.cos, s.sin = rope_tables(c)
    def forward(s, ids, sel=None, probe=None):
        """The logits at `sel`; with `probe` also the input of the last layer there, without `sel` only that."""
        c = s.c; B, T = ids.shape; x = F.embedding(ids, s.emb).view(B * T, c.d); lin = BLin.apply
        cos, sin = s.cos[:T].view(1, 1, T, c.hs), s.sin[:T].view(1, 1, T, c.hs); mask = torch.full((T, T), -1e9).triu(1)
        for n, p in enumerate(s.ls):
            if probe is not None and n == c.L - 1:
                inner = x[probe]
                if sel is None: return inner
            h = lin(RMS.apply(x, p['n1']), p['qkv'])
            y = Attn.apply(h, B, T, c.H, c.hs, cos, sin, mask)
            x = x + lin(y, p['o']); z = RMS.apply(x, p['n2'])
            x = x + Swiglu.apply(z, p['gu'], p['dn'])
        if sel is not None: x = x[sel]
        logits = lin(RMS.apply(x, s.nf), s.emb)
        return logits if probe is None else (logits, inner)
