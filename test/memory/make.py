"""GGUF models of several families with random weights, for measure.ts: make.py FOLDER MODEL.gguf [FAMILY ...]

MODEL gives its vocabulary of 49,152 tokens (SmolLM2 135M); the family `draft` is that model with a drafter. Needs the packages
gguf and numpy.
"""
import os
import sys
from pathlib import Path

import gguf
import numpy as np

out = Path(sys.argv[1]); out.mkdir(exist_ok=True)
rng = np.random.default_rng(1)
src = gguf.GGUFReader(sys.argv[2])
TOK = {k: f for k, f in src.fields.items() if k.startswith('tokenizer.')}
def field(f): return f.contents()
class W:
    def __init__(self, name, arch, keys):
        d = out/name; d.mkdir(exist_ok=True)
        self.w = gguf.GGUFWriter(d/f'{name}.gguf', arch); self.arch = arch
        for k, v in keys.items():
            key = k if k.startswith('general') else f'{arch}.{k}'
            if isinstance(v, bool): self.w.add_bool(key, v)
            elif isinstance(v, int): self.w.add_uint32(key, v)
            elif isinstance(v, float): self.w.add_float32(key, v)
            elif isinstance(v, list): self.w.add_array(key, v)
            else: self.w.add_string(key, v)
        for k, f in TOK.items():
            v = field(f)
            if isinstance(v, list): self.w.add_array(k, v)
            elif isinstance(v, bool): self.w.add_bool(k, v)
            elif isinstance(v, int): self.w.add_uint32(k, v)
            else: self.w.add_string(k, v)
    def t(self, name, *shape, f32=False, ones=False, scale=0.02):
        a = np.ones(shape, np.float32) if ones else (rng.standard_normal(shape, dtype=np.float32)*scale)
        if not f32 and not ones and len(shape) > 1 and shape[-1] % 32 == 0:
            q = gguf.quants.quantize(a, gguf.GGMLQuantizationType.Q8_0)
            self.w.add_tensor(name, q, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else: self.w.add_tensor(name, a)
    def done(self):
        self.w.write_header_to_file(); self.w.write_kv_data_to_file(); self.w.write_tensors_to_file(); self.w.close()
V = 49152
def base(n, e, ff, h, kv, hd, ctx=8192, **more):
    return {'block_count': n, 'context_length': ctx, 'embedding_length': e, 'feed_forward_length': ff,
      'attention.head_count': h, 'attention.head_count_kv': kv, 'attention.key_length': hd, 'attention.value_length': hd,
      'attention.layer_norm_rms_epsilon': 1e-5, 'rope.freq_base': 10000.0, 'rope.dimension_count': hd, **more}
def attn(w, i, e, h, kv, hd):
    w.t(f'blk.{i}.attn_norm.weight', e, ones=True)
    w.t(f'blk.{i}.attn_q.weight', h*hd, e); w.t(f'blk.{i}.attn_k.weight', kv*hd, e)
    w.t(f'blk.{i}.attn_v.weight', kv*hd, e); w.t(f'blk.{i}.attn_output.weight', e, h*hd)
def ffn(w, i, e, ff, norm='ffn_norm'):
    w.t(f'blk.{i}.{norm}.weight', e, ones=True)
    for n in ('gate', 'up'): w.t(f'blk.{i}.ffn_{n}.weight', ff, e)
    w.t(f'blk.{i}.ffn_down.weight', e, ff)
def ends(w, e):
    w.t('token_embd.weight', V, e); w.t('output_norm.weight', e, ones=True)
which = sys.argv[3:]
def on(n): return not which or n in which
if on('llama'):   # llama with a larger head count, GQA
    e, n = 1024, 12; w = W('llama', 'llama', base(n, e, 2816, 16, 4, 64, ctx=32768, vocab_size=V)); ends(w, e)
    for i in range(n): attn(w, i, e, 16, 4, 64); ffn(w, i, e, 2816)
    w.done()
if on('moe'):
    e, n, x, ff = 768, 8, 16, 768
    w = W('moe', 'qwen3moe', base(n, e, 2048, 12, 4, 64, **{'expert_count': x, 'expert_used_count': 4, 'expert_feed_forward_length': ff})); ends(w, e)
    for i in range(n):
        attn(w, i, e, 12, 4, 64); w.t(f'blk.{i}.attn_q_norm.weight', 64, ones=True); w.t(f'blk.{i}.attn_k_norm.weight', 64, ones=True)
        w.t(f'blk.{i}.ffn_norm.weight', e, ones=True); w.t(f'blk.{i}.ffn_gate_inp.weight', x, e, f32=True)
        w.t(f'blk.{i}.ffn_gate_exps.weight', x, ff, e); w.t(f'blk.{i}.ffn_up_exps.weight', x, ff, e); w.t(f'blk.{i}.ffn_down_exps.weight', x, e, ff)
    w.done()
if on('mamba'):
    e, n, di, ds, dc, dr = 1024, 24, 2048, 16, 4, 64
    w = W('mamba', 'mamba', {'block_count': n, 'context_length': 32768, 'embedding_length': e, 'feed_forward_length': 0, 'attention.head_count': 0,
      'ssm.conv_kernel': dc, 'ssm.inner_size': di, 'ssm.state_size': ds, 'ssm.time_step_rank': dr, 'attention.layer_norm_rms_epsilon': 1e-5}); ends(w, e)
    for i in range(n):
        p = f'blk.{i}.'; w.t(p+'attn_norm.weight', e, ones=True); w.t(p+'ssm_in.weight', 2*di, e); w.t(p+'ssm_conv1d.weight', di, dc, f32=True); w.t(p+'ssm_conv1d.bias', di)
        w.t(p+'ssm_x.weight', dr+2*ds, di); w.t(p+'ssm_dt.weight', di, dr); w.t(p+'ssm_dt.bias', di)
        w.w.add_tensor(p+'ssm_a', -np.ones((di, ds), np.float32)); w.t(p+'ssm_d', di, f32=True); w.t(p+'ssm_out.weight', e, di)
    w.done()
if on('lfm2'):
    e, n = 1024, 16; att = {2, 5, 8, 10, 12, 14}
    k = base(n, e, 4096, 16, 8, 64, ctx=32768, **{'shortconv.l_cache': 3, 'vocab_size': V}); k['attention.head_count_kv'] = [8 if i in att else 0 for i in range(n)]
    w = W('lfm2', 'lfm2', k); w.t('token_embd.weight', V, e); w.t('token_embd_norm.weight', e, ones=True)
    for i in range(n):
        p = f'blk.{i}.'
        if i in att:
            attn(w, i, e, 16, 8, 64); w.t(p+'attn_q_norm.weight', 64, ones=True); w.t(p+'attn_k_norm.weight', 64, ones=True)
        else:
            w.t(p+'attn_norm.weight', e, ones=True); w.t(p+'shortconv.conv.weight', e, 3, f32=True); w.t(p+'shortconv.in_proj.weight', 3*e, e); w.t(p+'shortconv.out_proj.weight', e, e)
        ffn(w, i, e, 4096)
    w.done()
if on('granitehybrid'):
    e, n, di, ds, dc, ng, nh = 768, 10, 1536, 128, 4, 1, 48; att = {4, 9}
    k = base(n, e, 2048, 12, 4, 64, ctx=32768, **{'ssm.conv_kernel': dc, 'ssm.inner_size': di, 'ssm.state_size': ds, 'ssm.time_step_rank': nh, 'ssm.group_count': ng,
       'residual_scale': 0.22, 'embedding_scale': 12.0, 'logit_scale': 6.0, 'attention.scale': 0.125, 'vocab_size': V}); k['attention.head_count_kv'] = [4 if i in att else 0 for i in range(n)]
    w = W('granitehybrid', 'granitehybrid', k); ends(w, e)
    for i in range(n):
        p = f'blk.{i}.'
        if i in att: attn(w, i, e, 12, 4, 64)
        else:
            cd = di+2*ng*ds; w.t(p+'attn_norm.weight', e, ones=True); w.t(p+'ssm_in.weight', di+cd+nh, e); w.t(p+'ssm_conv1d.weight', cd, dc, f32=True); w.t(p+'ssm_conv1d.bias', cd)
            w.t(p+'ssm_dt.bias', nh); w.w.add_tensor(p+'ssm_a', -np.ones((nh, 1), np.float32)); w.w.add_tensor(p+'ssm_d', np.ones((nh, 1), np.float32))
            w.t(p+'ssm_norm.weight', ng, di//ng, ones=True); w.t(p+'ssm_out.weight', e, di)
        ffn(w, i, e, 2048)
    w.done()
if on('mla'):
    e, n, h, r, rope, nope, v = 1024, 8, 16, 512, 64, 128, 128
    k = base(n, e, 2816, h, 1, r+rope, ctx=16384, **{'attention.key_length_mla': nope+rope, 'attention.value_length_mla': v, 'attention.kv_lora_rank': r, 'attention.q_lora_rank': 0,
       'leading_dense_block_count': n, 'expert_count': 8, 'expert_used_count': 2, 'expert_feed_forward_length': 512, 'expert_shared_count': 1, 'expert_weights_scale': 1.0, 'vocab_size': V})
    k['attention.value_length'] = r; k['rope.dimension_count'] = rope; del k['attention.q_lora_rank']; k['attention.q_lora_rank'] = 256
    w = W('mla', 'deepseek2', k); ends(w, e)
    for i in range(n):
        p = f'blk.{i}.'; w.t(p+'attn_norm.weight', e, ones=True); w.t(p+'attn_q_a.weight', 256, e); w.t(p+'attn_q_a_norm.weight', 256, ones=True); w.t(p+'attn_q_b.weight', h*(nope+rope), 256)
        w.t(p+'attn_kv_a_mqa.weight', r+rope, e); w.t(p+'attn_kv_a_norm.weight', r, ones=True); w.t(p+'attn_k_b.weight', h, r, nope); w.t(p+'attn_v_b.weight', h, v, r); w.t(p+'attn_output.weight', e, h*v)
        ffn(w, i, e, 2816)
    w.done()
if on('gemma2'):
    e, n = 768, 16
    w = W('gemma2', 'gemma2', base(n, e, 3072, 8, 4, 128, ctx=32768, **{'attention.sliding_window': 1024, 'attn_logit_softcapping': 50.0, 'final_logit_softcapping': 30.0})); ends(w, e)
    for i in range(n):
        attn(w, i, e, 8, 4, 128); w.t(f'blk.{i}.post_attention_norm.weight', e, ones=True); w.t(f'blk.{i}.post_ffw_norm.weight', e, ones=True); ffn(w, i, e, 3072)
    w.done()
if on('draft'):
    d = out/'draft'; d.mkdir(exist_ok=True)
    os.path.exists(d/'SmolLM2.gguf') or os.link(sys.argv[2], d/'SmolLM2.gguf')
    e, n = 384, 6; o = out; out = d.parent
    w = W('draft', 'llama', base(n, e, 1024, 6, 2, 64, vocab_size=V)); ends(w, e)
    for i in range(n): attn(w, i, e, 6, 2, 64); ffn(w, i, e, 1024)
    w.done(); os.replace(d/'draft.gguf', d/'draft-SmolLM2.gguf')
if on('vision'):
    d = out/'vision'; d.mkdir(exist_ok=True)
    e, n = 640, 4
    w = W('vision', 'gemma3', base(n, e, 2048, 4, 1, 256, ctx=32768, **{'attention.sliding_window': 512})); ends(w, e)
    for i in range(n):
        attn(w, i, e, 4, 1, 256); w.t(f'blk.{i}.attn_q_norm.weight', 256, ones=True); w.t(f'blk.{i}.attn_k_norm.weight', 256, ones=True)
        w.t(f'blk.{i}.post_attention_norm.weight', e, ones=True); w.t(f'blk.{i}.post_ffw_norm.weight', e, ones=True); ffn(w, i, e, 2048)
    w.done()
    ve, vn, vff, S, P = 768, 6, 3072, 896, 14
    m = gguf.GGUFWriter(d/'mmproj-vision.gguf', 'clip')
    m.add_bool('clip.has_vision_encoder', True); m.add_string('clip.projector_type', 'gemma3'); m.add_uint32('clip.vision.image_size', S); m.add_uint32('clip.vision.patch_size', P)
    m.add_uint32('clip.vision.embedding_length', ve); m.add_uint32('clip.vision.feed_forward_length', vff); m.add_uint32('clip.vision.projection_dim', e); m.add_uint32('clip.vision.block_count', vn)
    m.add_uint32('clip.vision.attention.head_count', 12); m.add_float32('clip.vision.attention.layer_norm_epsilon', 1e-6); m.add_array('clip.vision.image_mean', [0.5]*3); m.add_array('clip.vision.image_std', [0.5]*3); m.add_bool('clip.use_gelu', True)
    def mt(name, *s, f16=False, ones=False):
        a = np.ones(s, np.float32) if ones else rng.standard_normal(s, dtype=np.float32)*0.02
        m.add_tensor(name, a.astype(np.float16) if f16 else a)
    mt('v.patch_embd.weight', ve, 3, P, P); mt('v.patch_embd.bias', ve); mt('v.position_embd.weight', (S//P)**2, ve); mt('v.post_ln.weight', ve, ones=True); mt('v.post_ln.bias', ve)
    for i in range(vn):
        p = f'v.blk.{i}.'
        for a in ('ln1', 'ln2'): mt(p+a+'.weight', ve, ones=True); mt(p+a+'.bias', ve)
        for a in ('attn_q', 'attn_k', 'attn_v', 'attn_out'): mt(p+a+'.weight', ve, ve, f16=True); mt(p+a+'.bias', ve)
        mt(p+'ffn_up.weight', vff, ve, f16=True); mt(p+'ffn_up.bias', vff); mt(p+'ffn_down.weight', ve, vff, f16=True); mt(p+'ffn_down.bias', ve)
    mt('mm.input_projection.weight', ve, e); mt('mm.soft_emb_norm.weight', ve, ones=True)
    m.write_header_to_file(); m.write_kv_data_to_file(); m.write_tensors_to_file(); m.close()
